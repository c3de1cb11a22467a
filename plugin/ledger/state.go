package ledger

// State is what an entry is. The numbers are stored: never renumber them.
type State uint8

const (
	// Free: nothing is known, anybody may claim.
	Free State = 0
	// InFlight: a holder runs the call. It does not end by time while the holder lives.
	InFlight State = 1
	// Completed: the answer is kept.
	Completed State = 2
	// Unknown: a tombstone, the call may have run.
	Unknown State = 3
	// NotReplayable: a tombstone, the call ran and its answer was not kept.
	NotReplayable State = 4

	states = 5
)

// Verdict is what a claim is told.
type Verdict uint8

const (
	// First: the claim is won; the call runs.
	First Verdict = iota
	// Replay: the first answer, again.
	Replay
	// RefusedInFlight: the same call is running.
	RefusedInFlight
	// RefusedConflict: the key stands for another call.
	RefusedConflict
	// RefusedUnknown: the same call ran, or did not.
	RefusedUnknown
	// RefusedNotReplayable: the same call ran, its answer is gone.
	RefusedNotReplayable
	// RefusedCapacity: no room to remember it.
	RefusedCapacity
	// RefusedUnavailable: the store cannot tell.
	RefusedUnavailable
)

// Event ends a hold.
type Event uint8

const (
	// Complete keeps the answer.
	Complete Event = iota
	// Release frees the key: the call has certainly not run, or asks for another leg.
	Release
	// BuryUnknown leaves a tombstone: it may have run.
	BuryUnknown
	// BuryNotReplayable leaves a tombstone: it ran, the answer cannot be kept.
	BuryNotReplayable

	events = 4
)

// fenced marks an event that a state does not take.
const fenced State = 255

// row is what a state answers to a claim, and what each event of its own holder
// (same id, same fence) makes of it.
type row struct {
	same, other Verdict
	next        [events]State
}

// table is the whole state machine. A settled entry takes a later word of its own
// holder only where that is worse: an answer whose end turned out broken, or a
// reply that was cut after it had been judged.
var table = [states]row{
	Free:          {First, First, [events]State{Complete: fenced, Release: fenced, BuryUnknown: fenced, BuryNotReplayable: fenced}},
	InFlight:      {RefusedInFlight, RefusedConflict, [events]State{Complete: Completed, Release: Free, BuryUnknown: Unknown, BuryNotReplayable: NotReplayable}},
	Completed:     {Replay, RefusedConflict, [events]State{Complete: fenced, Release: fenced, BuryUnknown: Unknown, BuryNotReplayable: NotReplayable}},
	Unknown:       {RefusedUnknown, RefusedConflict, [events]State{Complete: fenced, Release: fenced, BuryUnknown: fenced, BuryNotReplayable: fenced}},
	NotReplayable: {RefusedNotReplayable, RefusedConflict, [events]State{Complete: fenced, Release: fenced, BuryUnknown: Unknown, BuryNotReplayable: fenced}},
}

// decide is what an entry says to a claim at a time. found is false where the
// ledger holds nothing for the id.
func decide(e entry, found bool, c *Claim, now Mono) Verdict {
	if !found || e.expired(now) {
		return First
	}
	if !e.readable() || e.state() >= states {
		return RefusedUnavailable
	}
	r := &table[e.state()]
	if e.fingerprint() == c.Fingerprint {
		return r.same
	}
	return r.other
}

// settle is what an event makes of an entry. ok is false when the hold may not.
func settle(e entry, found bool, h *Hold, incarnation uint64, ev Event) (next State, ok bool) {
	if !found || !e.readable() || e.fence() != h.Fence || e.holder() != incarnation || e.state() >= states || ev >= events {
		return 0, false
	}
	next = table[e.state()].next[ev]
	return next, next != fenced
}

// expires is when a settled entry is free again: ttl from now, and for a derived
// key not before its window from the claim has passed.
func expires(claimed, now Mono, t Terms) Mono {
	at := now + Mono(t.TTL)
	if t.Window > 0 {
		at = max(at, claimed+Mono(t.Window))
	}
	return at
}
