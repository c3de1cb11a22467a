package ledger

import "time"

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
// proxy-wasm ABI does not promise it, so a store that builds on it proves it when it opens.
const InsertIfAbsent = 1<<32 - 1

// Notice is something that operators count.
type Notice uint8

const (
	// Evicted: a completed entry was evicted for another one.
	Evicted Notice = iota
	// Shed: a reply was overwritten by younger ones before its entry expired.
	Shed
	// Orphaned: a call in flight lost its holder and became an unknown outcome.
	Orphaned
	// LateFenced: a settlement came from a lease that was lost. Settle's result
	// says so too, but for one that was tried again; do not count that.
	LateFenced
	// BucketFull: a claim was refused although every limit had room.
	BucketFull
	// Foreign: a record in the table was not one of ours; it was left alone. It is of no policy.
	Foreign
)

// Env is what a store needs of the worker that it runs in. Table, Now, Random and Log
// are required. A policy is the number that claims have for it; what is told of one that
// this worker's configuration does not know, another configuration's calls have left.
type Env struct {
	Table  Table
	Now    func() Mono
	Random func(into []byte) // unpredictable bytes
	Log    func(text string)

	// Live says whether a stream that won a claim is still open. Where it is nil, a
	// lease ends only by Settle and Forget.
	Live func(Token) bool
	// Count is told what happened.
	Count func(what Notice, policy uint64)
	// Late is told of a settlement that Settle called Pending, when it is applied. What
	// ends fenced instead is told as LateFenced. Of a Claim.Root nothing is told.
	Late func(policy uint64, ev Event)
	// Evicted is told the age of an entry, since its settlement, when it is evicted.
	Evicted func(policy uint64, age time.Duration)
	// Census is told, once a pass of the sweep, what the table holds of each of Policies.
	Census func(policy uint64, c Census)
	// Policies are those of this worker's configuration.
	Policies []uint64
}

// Census is what the ledger holds of one policy.
type Census struct {
	States     [NumStates]int // entries by state
	ReplyBytes int            // of the replies that are still there
}

// Cancellation names a call that its client abandoned, as far as a notification can: by
// digests, which mean nothing to another process.
type Cancellation struct {
	Scope   uint64 // as the Claim has it
	Session uint64 // 0 = none
	Request uint64 // digest of the JSON-RPC id
}

// Marks remembers which calls were cancelled, and how often keys were repeated, for all workers
// of a process.
type Marks interface {
	// Runs reports whether a policy may have a call in flight, in whatever worker. It costs
	// one look into the table.
	Runs(policy uint64) bool
	// Cancel marks a call, if its scope has any in flight. Call it before the server is
	// told.
	Cancel(Cancellation)
	// Cancelled reports whether a call that was claimed at a time was cancelled since. Where
	// the table cannot tell, it may have been.
	Cancelled(c Cancellation, claimed Mono) bool
	// Repeat counts one more repeat of a key, a digest, and gives their number so far. It
	// begins anew where none came for as long as said. It is 0 where it cannot be counted.
	Repeat(key uint64, lasting time.Duration) int
}
