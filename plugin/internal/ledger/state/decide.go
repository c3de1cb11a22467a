package state

import "github.com/callonce/callonce/plugin/internal/ledger"

// Found is what a store has found under a stored id. The zero value is a key of which it knows nothing.
type Found struct {
	State ledger.State
	// Unreadable: something is there that this build cannot read, but for Expires. Nothing else is known then.
	Unreadable bool
	// Expires is when it ends, where its state ends by time.
	Expires ledger.Mono

	// What a claim asks.

	Same    bool // it is the same call, by its fingerprint
	Task    bool // its reply hands out a task
	Shed    bool // its reply is gone
	Held    bool // an operator lets nobody take it over
	Attempt int

	// What a settlement asks.

	Fence, Holder uint64
	Elsewhere     bool // an operator said that the call ran: its holder has no word on it any more
}

// Expired reports whether what was found counts for nothing any more. A call in flight
// does not end by time; one that this build cannot read ends when its header says.
func (f *Found) Expired(now ledger.Mono) bool {
	return (f.Unreadable || f.State < ledger.NumStates && table[f.State].timed) && f.Expires <= now
}

// Judge is what an entry says to a claim, whatever the time.
func Judge(f *Found, c *ledger.Claim) ledger.Verdict {
	if f.Unreadable || f.State >= ledger.NumStates {
		return ledger.RefusedUnavailable
	}
	r := &table[f.State]
	switch {
	case f.State == ledger.Free:
		return ledger.First
	case !f.Same:
		return r.other
	case r.same == ledger.Replay && (f.Task && !c.TakesTasks || f.Shed):
		return ledger.RefusedNotReplayable
	case c.RetryUnknown && !f.Held:
		return r.retry
	}
	return r.same
}

// Plan is what is to be done about a claim.
type Plan struct {
	Verdict ledger.Verdict
	// What follows is for First.

	Attempt  int
	TakeOver bool // an unknown outcome is taken over: the new call has a prior one
	// Need is what the claim must reserve before the entry says so, Free what the entry in whose place it comes stops to use
	// afterwards, in that one's rows.
	Need, Free Counts
}

// PlanClaim plans a claim of a key under which f was found.
func PlanClaim(f *Found, c *ledger.Claim, now ledger.Mono) Plan {
	expired := f.Expired(now)
	if !expired {
		if v := Judge(f, c); v != ledger.First {
			return Plan{Verdict: v}
		}
	}
	p := Plan{Verdict: ledger.First, Attempt: 1, Need: Uses(ledger.InFlight)}
	if f.State == ledger.Free || f.Unreadable {
		return p
	}
	if !expired {
		p.Attempt, p.TakeOver = f.Attempt+1, true
	}
	p.Free = Uses(f.State)
	return p
}

// InPlace is the plan where the entry in whose place the new one comes counts in the same rows: it stays an entry, and only what it
// uses more must be reserved.
func (p Plan) InPlace() Plan {
	p.Need, p.Free = p.Need.Minus(p.Free), Counts{}
	return p
}

// Settlement is what an event makes of an entry.
type Settlement struct {
	Next ledger.State
	// Reserve is what it must reserve before the entry says so: the tombstone of a settled answer that turned out worse.
	Reserve Counts
	// Return is what it stops to use afterwards.
	Return Counts
}

// Settle is what an event makes of the entry that was found. ok is false where it is not the lease's, or does not take the event.
func Settle(f *Found, h *ledger.Lease, ev ledger.Event) (s Settlement, ok bool) {
	if f.Unreadable || f.Elsewhere || f.Fence != h.Fence || f.Holder != h.Holder {
		return s, false
	}
	return Turn(f.State, ev)
}

// Turn is what an event makes of an entry of a state, whoever caused it. ok is false where the state does not take it.
func Turn(from ledger.State, ev ledger.Event) (s Settlement, ok bool) {
	if s.Next, ok = Next(from, ev); !ok {
		return s, false
	}
	before, after := Uses(from), Uses(s.Next)
	if after.Tombs > before.Tombs {
		s.Reserve = Counts{Tombs: after.Tombs - before.Tombs}
	}
	s.Return = before.Plus(s.Reserve).Minus(after)
	return s, true
}

// WithoutRoom is a settlement for whose tombstone there is no room: the entry stays what it is, but
// without its reply, so that it never runs again either way.
func WithoutRoom(from ledger.State) Settlement { return Settlement{Next: from} }

// Next is what an event makes of a state. ok is false where the state does not take it.
func Next(s ledger.State, ev ledger.Event) (next ledger.State, ok bool) {
	if s >= ledger.NumStates || ev >= ledger.NumEvents {
		return 0, false
	}
	next = table[s].next[ev]
	return next, next != fenced
}

// Expires is when a settled entry is free again: ttl from its settlement, and for a derived
// key not before its window from the claim has passed.
func Expires(claimed, settled, ttl, window ledger.Mono) ledger.Mono {
	at := settled + ttl
	if window > 0 {
		at = max(at, claimed+window)
	}
	return at
}

// Silent reports whether a call in flight has lost its holder. A claim is a heartbeat
// too. last is the holder's latest one.
func Silent(claimed, last, now, lease ledger.Mono) bool {
	return now-max(claimed, last) >= lease
}
