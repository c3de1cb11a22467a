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

// Event changes an entry's state.
type Event uint8

const (
	// Complete keeps the answer.
	Complete Event = iota
	// Release frees the key: the call has certainly not run, or asks for another leg.
	Release
	// BuryUnknown leaves a tombstone: it may have run.
	MarkUnknown
	// BuryNotReplayable leaves a tombstone: it ran, the answer cannot be kept.
	MarkNotReplayable

	// The events below are nobody's word: the ledger sees them itself.

	// LoseLease: the holder was silent for the lease, or lost the stream.
	LoseLease
	// Evict makes room for another entry.
	Evict

	events      = 6
	leaseEvents = 4 // those that need a hold
)

// fenced marks an event that a state does not take.
const fenced State = 255

// counts is what an entry uses up of the limits: as an entry, in flight, and as a
// tombstone, spent or reserved.
type counts struct{ entries, inFlight, tombs int32 }

func (a counts) plus(b counts) counts {
	return counts{a.entries + b.entries, a.inFlight + b.inFlight, a.tombs + b.tombs}
}

func (a counts) minus(b counts) counts {
	return counts{a.entries - b.entries, a.inFlight - b.inFlight, a.tombs - b.tombs}
}

// row is what a state answers to a claim of the same or another fingerprint (retry:
// the same, where the claim may take an unknown outcome over), what each event makes
// of it, whether it ends by time, and what it counts.
type row struct {
	same, retry, other Verdict
	next               [events]State
	timed              bool
	counts             counts
}

// table is the whole state machine. A settled entry takes a later word of its own
// holder only where that is worse: an answer whose end turned out broken, or a
// reply that was cut after it had been judged. In flight and tombstones are never
// given up.
var table = [states]row{
	Free: {
		same: First, retry: First, other: First,
		next: [events]State{
			Complete: fenced, Release: fenced, MarkUnknown: fenced, MarkNotReplayable: fenced,
			LoseLease: fenced, Evict: fenced,
		},
	},
	InFlight: {
		same: RefusedInFlight, retry: RefusedInFlight, other: RefusedConflict,
		next: [events]State{
			Complete: Completed, Release: Free, MarkUnknown: Unknown, MarkNotReplayable: NotReplayable,
			LoseLease: Unknown, Evict: fenced,
		},
		counts: counts{entries: 1, inFlight: 1, tombs: 1},
	},
	Completed: {
		same: Replay, retry: Replay, other: RefusedConflict,
		next: [events]State{
			Complete: fenced, Release: fenced, MarkUnknown: Unknown, MarkNotReplayable: NotReplayable,
			LoseLease: fenced, Evict: Free,
		},
		timed:  true,
		counts: counts{entries: 1},
	},
	Unknown: {
		same: RefusedUnknown, retry: First, other: RefusedConflict,
		next: [events]State{
			Complete: fenced, Release: fenced, MarkUnknown: fenced, MarkNotReplayable: fenced,
			LoseLease: fenced, Evict: fenced,
		},
		timed:  true,
		counts: counts{entries: 1, tombs: 1},
	},
	NotReplayable: {
		same: RefusedNotReplayable, retry: RefusedNotReplayable, other: RefusedConflict,
		next: [events]State{
			Complete: fenced, Release: fenced, MarkUnknown: Unknown, MarkNotReplayable: fenced,
			LoseLease: fenced, Evict: fenced,
		},
		timed:  true,
		counts: counts{entries: 1, tombs: 1},
	},
}

// decide is what an entry says to a claim at a time. found is false where the
// ledger holds nothing for the id.
func decide(e entry, found bool, c *Claim, now Mono) Verdict {
	if !found || e.expired(now) {
		return First
	}
	if !e.readable() {
		return RefusedUnavailable
	}
	r := &table[e.state()]
	switch {
	case e.fingerprint() != c.Fingerprint:
		return r.other
	case r.same == Replay && (e.flags()&flagTask != 0 && !c.TakesTasks || e.flags()&flagShed != 0):
		return RefusedNotReplayable
	case c.RetryUnknown:
		return r.retry
	}
	return r.same
}

// settle is what an event makes of an entry. ok is false when the hold may not.
func settle(e entry, found bool, h *Lease, ev Event) (next State, ok bool) {
	if !found || !e.readable() || e.fence() != h.Fence || e.holder() != h.Holder || ev >= events {
		return 0, false
	}
	next = table[e.state()].next[ev]
	return next, next != fenced
}

// expires is when a settled entry is free again: ttl from now, and for a derived
// key not before its window from the claim has passed.
func expires(claimed, now, ttl, window Mono) Mono {
	at := now + ttl
	if window > 0 {
		at = max(at, claimed+window)
	}
	return at
}

// silent reports whether a call in flight has lost its holder. A claim is a sign of
// life too. last is the holder's latest sign.
func silent(claimed, last, now, lease Mono) bool {
	return now-max(claimed, last) >= lease
}
