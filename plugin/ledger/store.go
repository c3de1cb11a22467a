package ledger

import "time"

// Mono is a time in nanoseconds on a monotonic clock that all workers of a process
// share. Its origin means nothing.
type Mono int64

// Token names the one who asks: a stream, and a generation of it, so that an answer
// for a stream that has ended finds nobody.
type Token struct{ Stream, Generation uint32 }

// Store is what the filter asks. A store that has to wait answers through its Sink.
type Store interface {
	// Ask claims a key or says what is known of it. When the second result is false,
	// Sink.Answered follows, once.
	Ask(Token, Claim) (Answer, bool)
	// Settle ends a hold. It never waits; what cannot be applied now is tried again at
	// every Tick until it is applied or fenced. It reports what became of it so far.
	Settle(Hold, Outcome) Settled
	// Forget says that the stream is gone: a claim that it wins later is released.
	Forget(Token)
	// Tick does what must be done now and then.
	Tick(now Mono)
}

// Sink takes the answers that came later.
type Sink interface{ Answered(Token, Answer) }

// Claim is the intent to run one call.
type Claim struct {
	ID          [32]byte // the stored id: a hash, never the key itself
	Fingerprint [32]byte
	Principal   uint64 // digest, for counting
	Scope       uint64 // digest, for counting
	Budget      Budget
	Terms       Terms
}

// Terms say how long an entry lasts once it is settled.
type Terms struct {
	TTL    time.Duration // from the settlement
	Window time.Duration // from the claim, for a derived key; else 0
}

// Budget bounds the bytes of the replies of one policy.
type Budget struct {
	Ring  int // which ring of replies
	Bytes int // of all replies in it
}

// Hold is the right to settle a key, as one claim won it.
type Hold struct {
	ID      [32]byte
	Fence   uint64
	Claimed Mono
	Budget  Budget
	Terms   Terms
}

// Reply is an answer worth keeping. Message is one JSON-RPC response; the token of
// its id stands at [IDStart, IDEnd).
type Reply struct {
	Status         int
	IDStart, IDEnd int
	Task           bool // hands out a task: only for those who declare tasks
	Message        []byte
}

// Outcome is how a hold ends.
type Outcome struct {
	Event Event
	Reply Reply // for Complete
}

// Answer is what the ledger says to a claim.
type Answer struct {
	Verdict Verdict
	Hold    Hold  // for First
	Reply   Reply // for Replay
}

// Settled is what became of a settlement.
type Settled uint8

const (
	// Applied: the entry says so now.
	Applied Settled = iota
	// Fenced: the entry is not, or no longer, this hold's.
	Fenced
	// Pending: it is tried again at the next tick.
	Pending
)

// Table is the host's shared data: one map for all workers of a process, in which
// a value can be swapped atomically and nothing can be deleted.
type Table interface {
	// Get returns the value and its cas; found is false for a key never set. The value
	// is the caller's own.
	Get(key string) (value []byte, cas uint32, found bool, err error)
	// Set stores value if cas is that of the present value. With cas InsertIfAbsent it
	// stores only where there is none, with 0 always. ok is false for a mismatch.
	Set(key string, value []byte, cas uint32) (ok bool, err error)
}

// InsertIfAbsent makes Table.Set create a key and never overwrite one. The
// proxy-wasm ABI does not promise it, so Open proves it.
const InsertIfAbsent = 1<<32 - 1
