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
	// Settle ends a lease. It never waits; what cannot be applied now is tried again at
	// every Tick until it is applied or fenced. It reports what became of it so far.
	Settle(Lease, Outcome) Settled
	// Forget says that the stream is gone: a claim that it wins later is released, and
	// a lease of it that was never settled is marked unknown.
	Forget(Token)
	// Tick does what must be done now and then: a heartbeat, a step of the sweep,
	// another try of what could not be settled. Call it about once a second.
	Tick(now Mono)
}

// Sink takes the answers that came later.
type Sink interface{ Answered(Token, Answer) }

// Claim is the intent to run one call. Its numbers of policy, principal, scope, session and request mean nothing to the
// ledger: equal ones are the same.
type Claim struct {
	ID          [32]byte // the stored id: a hash, never the key itself
	Fingerprint [32]byte
	Policy      uint64 // Limits count within it
	Principal   uint64 // digest, for counting
	Scope       uint64 // digest, for counting
	Session     uint64 // digest of the session, 0 = none; only kept and given back
	Request     uint64 // digest of the JSON-RPC id; only kept and given back
	Tool        uint64 // what is called, for operators; only kept and given back
	Shown       uint64 // what operators know the scope by where the store is many processes'; only kept and given back
	// RetryUnknown lets the claim take over a key of unknown outcome (on_unknown: retry).
	RetryUnknown bool
	// Root says that the claim is no call's: it is settled with what another leg came to, and
	// Env.Late is not told of that.
	Root bool
	// TakesTasks says that the asking client may be handed a task.
	TakesTasks bool
	Budget     Budget
	Limits     Limits
	Terms      Terms
}

// Terms say how long an entry lasts. They are kept to the millisecond, rounded up.
type Terms struct {
	TTL      time.Duration // from the settlement
	Window   time.Duration // from the claim, for a derived key; else 0
	LeaseTTL time.Duration // silence of the holder that ends a call in flight; a claim without is refused
}

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
	// OnFullEvict evicts the oldest completed entry of a full level instead of
	// refusing; a repeat of that entry's call runs again.
	OnFullEvict bool
}

// Lease is the right to settle a key, as one claim won it.
type Lease struct {
	ID      [32]byte
	Fence   uint64
	Holder  uint64 // the incarnation that won it
	Claimed Mono
	Attempt int // 1, or more where an unknown outcome was taken over
	Root    bool
	Policy  uint64
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
	Elsewhere      bool // an operator says that the call ran: there is no message
	Message        []byte
}

// Outcome is how a lease ends.
type Outcome struct {
	Event Event // one of a holder
	Why   Why   // only kept and given back
	Reply Reply // for Complete
}

// Answer is what the ledger says to a claim.
type Answer struct {
	Verdict Verdict
	Lease   Lease // for First
	Reply   Reply // for Replay
	Prior   Prior // of the entry that was found, also for a First that took one over
	At      Mono  // when the store looked, 0 = it does not say
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
	// Fenced: the entry is not, or no longer, this lease's.
	Fenced
	// Pending: it is tried again at the next tick.
	Pending

	// Unkept beside Applied or Pending: the event was Complete, and the reply could not be kept. What is or will be applied is
	// MarkNotReplayable.
	Unkept Settled = 1 << 7
)
