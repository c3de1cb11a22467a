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

	// NumStates is how many there are, from 0.
	NumStates = 5
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
	// MarkUnknown leaves a tombstone: it may have run.
	MarkUnknown
	// MarkNotReplayable leaves a tombstone: it ran, the answer cannot be kept.
	MarkNotReplayable

	// The events below no holder may settle with: the ledger sees them itself.

	// LoseLease: the holder gave no heartbeat for the lease, or lost the stream.
	LoseLease
	// Evict makes room for another entry.
	Evict

	// The events below an operator causes, of a key whose outcome nobody knows.

	// ResolveCompleted says that the call ran, and that its answer is to be had elsewhere.
	ResolveCompleted
	// ResolveReleased says that it did not run: a repeat may.
	ResolveReleased
	// ResolveRefused lets no repeat run, also where repeats may take unknown outcomes over.
	ResolveRefused

	// NumEvents is how many there are, NumHolderEvents how many of them a holder settles with.
	NumEvents       = 9
	NumHolderEvents = 4
)

// Why is how an entry came to be what it is. The numbers are the guard's, but for HolderLost: equal ones are the same.
type Why struct {
	Cause  Cause
	Status int // of the HTTP answer, 0 = there was none
}

// Cause is a number that is stored: never renumber them.
type Cause uint8

// HolderLost is the cause that the ledger itself sees.
const HolderLost Cause = 1
