package ledger

// The state machine for stores that keep their entries elsewhere: the same table.

// Found is what a store has found under an id.
type Found struct {
	State State
	// Same says that it is the same call, by its fingerprint.
	Same bool
	// Task says that its reply hands out a task.
	Task bool
}

// Judge is what an entry that lives says to a claim.
func Judge(f Found, c *Claim) Verdict {
	if f.State >= states {
		return RefusedUnavailable
	}
	r := &table[f.State]
	switch {
	case f.State == Free:
		return First
	case !f.Same:
		return r.other
	case r.same == Replay && f.Task && !c.TakesTasks:
		return RefusedNotReplayable
	case c.RetryUnknown:
		return r.retry
	}
	return r.same
}

// Next is what an event makes of a state. ok is false where the state does not take it.
func Next(s State, ev Event) (next State, ok bool) {
	if s >= states || ev >= events {
		return 0, false
	}
	next = table[s].next[ev]
	return next, next != fenced
}
