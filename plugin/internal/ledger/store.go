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
	Settle(Lease, Outcome) Settled
	// Forget says that the stream is gone: a claim that it wins later is released, and
	// a hold of it that was never settled is buried.
	Forget(Token)
	// Tick does what must be done now and then: a sign of life, a step of the sweep,
	// another try of what could not be settled. Call it about once a second.
	Tick(now Mono)
}

// Sink takes the answers that came later.
type Sink interface{ Answered(Token, Answer) }

// Claim is the intent to run one call.
type Claim struct {
	ID          [32]byte // the stored id: a hash, never the key itself
	Fingerprint [32]byte
	Policy      string // name of the policy; Limits count within it
	Principal   uint64 // digest, for counting
	Scope       uint64 // digest, for counting
	Session     uint64 // digest of the session, 0 = none; only kept and given back
	Request     uint64 // digest of the JSON-RPC id; only kept and given back
	// RetryUnknown lets the claim take over a key of unknown outcome (on_unknown: retry).
	RetryUnknown bool
	// TakesTasks says that the asking client may be handed a task.
	TakesTasks bool
	Budget     Budget
	Limits     Limits // the zero value stands for DefaultLimits
	Terms      Terms
}

// Terms say how long an entry lasts. They are kept to the millisecond, rounded up.
type Terms struct {
	TTL      time.Duration // from the settlement
	Window   time.Duration // from the claim, for a derived key; else 0
	LeaseTTL time.Duration // silence of the holder that ends a call in flight; 0 = DefaultLease
}

// DefaultLeaseTTL is the lease of a policy that names none.
const DefaultLeaseTTL = 15 * time.Second

// Budget bounds the bytes of the replies of one policy.
type Budget struct {
	Ring  int // which ring of replies
	Bytes int // of all messages in it
}

// Limits bound how much of each kind the ledger remembers, at three levels that nest.
// An entry in flight and a tombstone count as entries too, and an entry in flight
// reserves the tombstone that it may become. A member that is 0 limits nothing.
type Limits struct {
	Entries, EntriesPerPrincipal, EntriesPerScope    int
	InFlight, InFlightPerPrincipal, InFlightPerScope int
	TombstonesPerScope                               int
	// OnFullEvict gives up the oldest completed entry of a full level instead of
	// refusing; a repeat of that entry's call runs again.
	OnFullEvict bool
}

// DefaultLimits are those of a policy without a preset.
func DefaultLimits() Limits {
	return Limits{
		Entries: 16384, EntriesPerPrincipal: 8192, EntriesPerScope: 8192,
		InFlight: 512, InFlightPerPrincipal: 128, InFlightPerScope: 128,
		TombstonesPerScope: 256,
	}
}

// Lease is the right to settle a key, as one claim won it.
type Lease struct {
	ID      [32]byte
	Fence   uint64
	Holder  uint64 // the incarnation that won it
	Claimed Mono
	Attempt int // 1, or more where an unknown outcome was taken over
	Policy  string
	Budget  Budget
	Limits  Limits
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
	Lease   Lease // for First
	Reply   Reply // for Replay
	Prior   Prior // of the entry that was found, also for a First that took one over
	// RetryAfter, for RefusedCapacity, is when there may be room: from a second to a day.
	RetryAfter time.Duration
}

// Prior says what is known of the call that a repeat repeats: what tells a repeat of
// the transport from one of the model.
type Prior struct {
	Known            bool
	Session, Request uint64 // as its Claim gave them
	Claimed          Mono
	Settled          Mono // 0 = in flight
	Attempt          int
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
	// Get returns the value and its cas; found is false for a key never set. The value is
	// good until the host's callback returns.
	Get(key string) (value []byte, cas uint32, found bool, err error)
	// Set stores value if cas is that of the present value. With cas InsertIfAbsent it
	// stores only where there is none, with 0 always. ok is false for a mismatch.
	Set(key string, value []byte, cas uint32) (ok bool, err error)
}

// InsertIfAbsent makes Table.Set create a key and never overwrite one. The
// proxy-wasm ABI does not promise it, so Open proves it.
const InsertIfAbsent = 1<<32 - 1

// Notice is something that operators count.
type Notice uint8

const (
	// Evicted: a completed entry was given up for another one.
	Evicted Notice = iota
	// Shed: a reply was overwritten by younger ones before its entry expired.
	Shed
	// Orphaned: a call in flight lost its holder and became an unknown outcome.
	Orphaned
	// LateFenced: a settlement came from a hold that no longer held. Settle's result
	// says so too, but for one that was tried again; do not count that.
	LateFenced
	// BucketFull: a claim was refused although every limit had room.
	BucketFull
	// Foreign: a record in the table was not one of ours; it was left alone.
	Foreign
)

// Env is what a store needs of the worker that it runs in. Table, Now, Random and Log
// are required.
type Env struct {
	Table  Table
	Now    func() Mono
	Random func(into []byte) // unpredictable bytes
	Log    func(text string)

	// Live says whether a stream that won a claim is still open. Where it is nil, a
	// lease ends only by Settle and Forget.
	Live func(Token) bool
	// Count is told what happened, with the policy's name, "" where this worker's
	// configuration does not know it.
	Count func(what Notice, policy string)
	// Late is told of a settlement that Settle called Pending, when it is applied. What
	// ends fenced instead is told as LateFenced.
	Late func(policy string, ev Event)
	// Evicted is told the age of an entry, since its settlement, when it is evicted.
	Evicted func(policy string, age time.Duration)
	// Census is told, once a pass of the sweep, what the table holds of a policy.
	Census func(policy string, c Census)
	// Policies are the names that notices may need.
	Policies []string
}

// Census is what the ledger holds of one policy.
type Census struct {
	States     [states]int // entries by state
	ReplyBytes int         // of the replies that are still there
}
