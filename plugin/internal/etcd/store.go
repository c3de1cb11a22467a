package etcd

import (
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// CallID names a call of etcd that is under way.
type CallID uint32

// Caller calls etcd. What comes of a call that has begun follows by [Store.Answered], once, and never before Call returns. An error says
// that the call has certainly not been sent.
type Caller interface {
	Call(service, method string, message []byte, timeout time.Duration) (CallID, error)
}

// Options say how a store works.
type Options struct {
	Prefix  string          // of all keys, such as "/callonce/"
	Cluster string          // that is called, for operators
	Timeout time.Duration   // of a claim, however many calls it takes, and of each other call
	Lease   time.Duration   // silence of a worker that ends its calls in flight, in whole seconds; required
	TTLs    []time.Duration // those of the policies, windows of derived keys among them
	Holder  string          // what operators read under a worker's key
	Page    int             // records on a page for operators, so that their answers fit into memory; 0 = 32
}

// Env is what a store needs of its worker. Caller, Sink, Now, Random and Log are required.
type Env struct {
	Caller Caller
	Sink   ledger.Sink
	Now    func() ledger.Mono
	Wall   func() int64      // nanoseconds since 1970, on the clock that the workers of all proxies have about in common
	Random func(into []byte) // unpredictable bytes
	Log    func(text string)
	Count  func(what ledger.Notice, policy uint64)
	// Late is told of each settlement that etcd has taken, but for those that it took as fenced, and of those of a Claim.Root.
	Late func(policy uint64, ev ledger.Event)
	// Taken is told of each key whose settlement etcd has taken, or has refused to take from this worker.
	Taken func(id [32]byte)
	// Live says whether a stream that asked is still open. Where it is nil, only Forget says that it is gone.
	Live func(ledger.Token) bool
	// Local counts what this proxy claims, and nothing else: the limits are those of one proxy. nil = no limits.
	Local ledger.Store
	// Up is told at every tick whether etcd takes what it is asked for, once that is known.
	Up func(bool)
	// Trouble is told of each claim that could not be answered and of each call that failed, and why.
	Trouble func(Reason)
}

// Store is the ledger in etcd, as one worker sees it: not for concurrent use.
type Store struct {
	env    Env
	opts   Options
	self   self
	calls  map[CallID]func(status int, message []byte)
	asking map[ledger.Token]*asked
	grants map[uint64]*grant // by the revision of the claim
	holder map[ledger.Token]*grant
	strays []*stray
	health health

	releasing int // strays that are on their way
}

var _ ledger.Store = (*Store)(nil)

// Open makes a store. It claims nothing until its ticks have got the leases that it needs.
func Open(env Env, opts Options) *Store {
	s := &Store{
		env: env, opts: opts, calls: map[CallID]func(int, []byte){}, asking: map[ledger.Token]*asked{},
		grants: map[uint64]*grant{}, holder: map[ledger.Token]*grant{},
	}
	s.self.kept = map[time.Duration]*kept{}
	for _, ttl := range opts.TTLs {
		s.use(ttl)
	}
	return s
}

// Forget implements ledger.Store.
func (s *Store) Forget(t ledger.Token) {
	if a := s.asking[t]; a != nil {
		s.leave(a)
	}
	if h := s.holder[t]; h != nil {
		delete(s.holder, t)
		if !h.settled {
			s.Settle(h.Lease, ledger.Outcome{Event: ledger.MarkUnknown, Why: ledger.Why{Cause: ledger.HolderLost}})
		}
		s.drop(h)
	}
}

// leave notes that nobody waits for the answer to a claim any more: the call is not sent.
func (s *Store) leave(a *asked) {
	a.gone = true
	delete(s.asking, a.token)
	s.uncount(a)
}

// forgetGone forgets the streams that have ended. A settled grant waits for that, since its stream may have a worse word to say.
func (s *Store) forgetGone() {
	if s.env.Live == nil {
		return
	}
	for t := range s.asking {
		if !s.env.Live(t) {
			s.Forget(t)
		}
	}
	for t := range s.holder {
		if !s.env.Live(t) {
			s.Forget(t)
		}
	}
}

func (s *Store) recordKey(id *[32]byte) string {
	return s.opts.Prefix + "k/" + hexOf(id[:])
}

// hexOf is what encoding/hex does, which would bring fmt along.
func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	out := make([]byte, 0, 2*len(b))
	for _, c := range b {
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}

func (s *Store) holderKey(incarnation uint64) string {
	var b [8]byte
	for i := range b {
		b[i] = byte(incarnation >> (56 - 8*i))
	}
	return s.opts.Prefix + "h/" + hexOf(b[:])
}

// number is random, and not 0.
func (s *Store) number() uint64 {
	var b [8]byte
	for {
		s.env.Random(b[:])
		if n := le.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

func (s *Store) tell(what ledger.Notice, policy uint64) {
	if s.env.Count != nil {
		s.env.Count(what, policy)
	}
}

// wall is the time for records: 0 where there is no clock.
func (s *Store) wall() ledger.Mono {
	if s.env.Wall == nil {
		return 0
	}
	return ledger.Mono(s.env.Wall())
}

// prior is what a record says of the call that is repeated. Its times are by the clock of the proxy that wrote it, and are given as
// times of this one's monotonic clock: exact to the difference of the two clocks.
func (s *Store) prior(r *record) ledger.Prior {
	here := func(t ledger.Mono) ledger.Mono {
		wall := s.wall()
		if t == 0 || wall == 0 {
			return 0
		}
		return s.env.Now() - (wall - t)
	}
	return ledger.Prior{Known: true, Session: r.session, Request: r.request, Claimed: here(r.claimed), Settled: here(r.settled), Attempt: r.attempt}
}

// lasting is how long an entry must last at least.
func lasting(t ledger.Terms) time.Duration { return max(t.TTL, t.Window) }
