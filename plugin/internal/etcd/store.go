package etcd

import (
	"slices"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
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
	Timeout time.Duration   // of each call
	Lease   time.Duration   // silence of a worker that ends its calls in flight, in whole seconds; required
	TTLs    []time.Duration // those of the policies, windows of derived keys among them
}

// Env is what a store needs of its worker. All but Count are required.
type Env struct {
	Caller Caller
	Sink   ledger.Sink
	Now    func() ledger.Mono
	Random func(into []byte) // unpredictable bytes
	Log    func(text string)
	Count  func(what ledger.Notice, policy uint64)
}

// Store is the ledger in etcd, as one worker sees it: not for concurrent use.
type Store struct {
	env     Env
	opts    Options
	self    self
	calls   map[CallID]func(status int, message []byte)
	asking  map[ledger.Token]*asked
	grants  map[uint64]*grant // by the revision of the claim
	holder  map[ledger.Token]*grant
	strays  []*stray
	reasons map[string]bool // logged
}

var _ ledger.Store = (*Store)(nil)

// Open makes a store. It claims nothing until its ticks have got the leases that it needs.
func Open(env Env, opts Options) *Store {
	s := &Store{
		env: env, opts: opts, calls: map[CallID]func(int, []byte){}, asking: map[ledger.Token]*asked{},
		grants: map[uint64]*grant{}, holder: map[ledger.Token]*grant{}, reasons: map[string]bool{},
	}
	s.self.kept = map[time.Duration]*kept{}
	for _, ttl := range opts.TTLs {
		s.use(ttl)
	}
	return s
}

// asked is a claim under way.
type asked struct {
	token   ledger.Token
	claim   ledger.Claim
	key     string
	record  record // as it is to be written
	encoded []byte
	gone    bool // nobody waits for it any more
	tries   int
	seen    record // what was found, where it is to be taken over
	seenRev int64
}

// maxTries bounds how often one claim goes back to etcd because others were quicker.
const maxTries = 3

// Ask implements ledger.Store. It waits for etcd unless it can tell already that it must refuse.
func (s *Store) Ask(t ledger.Token, c ledger.Claim) (ledger.Answer, bool) {
	unavailable := ledger.Answer{Verdict: ledger.RefusedUnavailable}
	if !s.ready(lasting(c.Terms)) {
		return unavailable, true
	}
	if s.asking[t] != nil {
		return unavailable, true
	}
	a := &asked{token: t, claim: c, key: s.recordKey(&c.ID)}
	a.record = record{
		state: ledger.InFlight, attempt: 1, fingerprint: c.Fingerprint, holder: s.self.incarnation, nonce: s.number(),
		session: c.Session, request: c.Request, claimed: s.env.Now(),
	}
	a.encoded = a.record.encode()
	var x txn
	x.compare(a.key, targetCreate, equal, 0)
	s.write(&x, a)
	x.otherwise(opRange(s.holderKey(s.self.incarnation)))
	if !s.txn(&x, func(r *txnResponse) { s.claimed(a, r) }) {
		return unavailable, true
	}
	s.asking[t] = a
	return ledger.Answer{}, false
}

// write adds what all claims have in common: the worker lives, the record is put, what lies there is read else.
func (s *Store) write(x *txn, a *asked) {
	x.compare(s.holderKey(s.self.incarnation), targetVersion, greater, 0)
	x.then(opPut(a.key, a.encoded, s.self.running.id))
	x.otherwise(opRange(a.key))
}

// claimed takes etcd's answer to a claim; nil is none.
func (s *Store) claimed(a *asked, r *txnResponse) {
	switch {
	case r == nil:
		// It may have been written. The call was not sent, so the key must not stay taken.
		s.stray(a.key, &a.record, a.encoded, lasting(a.claim.Terms))
		s.refuse(a, ledger.RefusedUnavailable)
	case r.succeeded:
		s.won(a, r.revision)
	case len(r.ranges) != 2:
		s.refuse(a, ledger.RefusedUnavailable)
	case !r.ranges[1].found:
		s.lapsed()
		s.refuse(a, ledger.RefusedUnavailable)
	default:
		s.found(a, r.ranges[0])
	}
}

// found decides by the record that lies under the key.
func (s *Store) found(a *asked, r rangeResponse) {
	old, ok := record{}, r.found
	if ok {
		old, ok = decodeRecord(r.kv.value)
	}
	if !ok {
		// Not ours to read, or gone meanwhile.
		s.refuse(a, ledger.RefusedUnavailable)
		return
	}
	a.seen, a.seenRev = old, r.kv.modRevision
	if old.state != ledger.InFlight || old.fingerprint != a.claim.Fingerprint {
		s.judge(a, old.state)
		return
	}
	if old.holder == s.self.incarnation {
		if s.grants[uint64(r.kv.modRevision)] == nil && !s.claiming(old.nonce) {
			// A claim of our own that nobody knows of: its answer was lost.
			s.stray(a.key, &old, slices.Clone(r.kv.value), lasting(a.claim.Terms))
		}
		s.judge(a, ledger.InFlight)
		return
	}
	var x txn
	x.then(opRange(s.holderKey(old.holder)))
	if !s.txn(&x, func(r *txnResponse) {
		switch {
		case r == nil || len(r.ranges) != 1:
			s.refuse(a, ledger.RefusedUnavailable)
		case r.ranges[0].found:
			s.judge(a, ledger.InFlight)
		default:
			next, _ := state.Next(ledger.InFlight, ledger.LoseLease)
			s.judge(a, next)
		}
	}) {
		s.refuse(a, ledger.RefusedUnavailable)
	}
}

// judge answers, or takes the key over.
func (s *Store) judge(a *asked, st ledger.State) {
	old := &a.seen
	v := state.Judge(&state.Found{State: st, Same: old.fingerprint == a.claim.Fingerprint, Task: old.reply.Task}, &a.claim)
	if v == ledger.First {
		s.takeOver(a)
		return
	}
	answer := ledger.Answer{Verdict: v, Prior: old.prior()}
	if v == ledger.Replay {
		answer.Reply = old.reply
	}
	s.answer(a, answer)
}

// takeOver claims a key of unknown outcome, unless anybody changed it meanwhile or its holder lives.
func (s *Store) takeOver(a *asked) {
	if a.tries++; a.tries > maxTries || a.gone || !s.ready(lasting(a.claim.Terms)) {
		s.refuse(a, ledger.RefusedUnavailable)
		return
	}
	a.record.attempt, a.record.holder = a.seen.attempt+1, s.self.incarnation
	a.encoded = a.record.encode()
	var x txn
	x.compare(a.key, targetMod, equal, a.seenRev)
	if a.seen.state == ledger.InFlight {
		// Once gone an incarnation never comes back, so this only makes sure.
		x.compare(s.holderKey(a.seen.holder), targetVersion, equal, 0)
	}
	s.write(&x, a)
	x.otherwise(opRange(s.holderKey(s.self.incarnation)))
	if !s.txn(&x, func(r *txnResponse) { s.claimed(a, r) }) {
		s.refuse(a, ledger.RefusedUnavailable)
	}
}

func (s *Store) refuse(a *asked, v ledger.Verdict) { s.answer(a, ledger.Answer{Verdict: v}) }

func (s *Store) answer(a *asked, answer ledger.Answer) {
	if s.asking[a.token] == a {
		delete(s.asking, a.token)
	}
	if !a.gone {
		s.env.Sink.Answered(a.token, answer)
	}
}

// won makes a grant of a claim. Where nobody waits for it the call is not sent: the key is free again.
func (s *Store) won(a *asked, revision int64) {
	h := &grant{
		Lease: ledger.Lease{
			ID: a.claim.ID, Fence: uint64(revision), Holder: a.record.holder, Claimed: a.record.claimed, Attempt: a.record.attempt,
			Policy: a.claim.Policy, Budget: a.claim.Budget, Limits: a.claim.Limits, Terms: a.claim.Terms,
		},
		key: a.key, record: a.record, revision: revision, state: ledger.InFlight,
	}
	s.grants[h.Fence] = h
	if a.gone {
		event := ledger.Release
		if a.seenRev != 0 {
			event = ledger.MarkUnknown // what it took over stays unknown
		}
		s.Settle(h.Lease, ledger.Outcome{Event: event})
		s.drop(h)
		return
	}
	s.holder[a.token] = h
	answer := ledger.Answer{Verdict: ledger.First, Lease: h.Lease}
	if a.seenRev != 0 {
		answer.Prior = a.seen.prior()
	}
	s.answer(a, answer)
}

// Forget implements ledger.Store.
func (s *Store) Forget(t ledger.Token) {
	if a := s.asking[t]; a != nil {
		a.gone = true
		delete(s.asking, t)
	}
	if h := s.holder[t]; h != nil {
		delete(s.holder, t)
		if !h.settled {
			s.Settle(h.Lease, ledger.Outcome{Event: ledger.MarkUnknown})
		}
		s.drop(h)
	}
}

// claiming says that a claim of that nonce is under way.
func (s *Store) claiming(nonce uint64) bool {
	for _, a := range s.asking {
		if a.record.nonce == nonce {
			return true
		}
	}
	return false
}

// Answered takes what has come of a call: etcd's message, or none and a status of gRPC other than 0.
func (s *Store) Answered(id CallID, status int, message []byte) {
	if f := s.calls[id]; f != nil {
		delete(s.calls, id)
		f(status, message)
	}
}

// txn begins a transaction. done is given nil where nothing is known of it: it may have been applied.
func (s *Store) txn(x *txn, done func(*txnResponse)) bool {
	return s.call(ServiceKV, MethodTxn, x.message(), func(status int, message []byte) {
		if status == 0 {
			if r, ok := decodeTxn(message); ok {
				done(&r)
				return
			}
		}
		done(nil)
	})
}

func (s *Store) call(service, method string, message []byte, done func(status int, message []byte)) bool {
	id, err := s.env.Caller.Call(service, method, message, s.opts.Timeout)
	if err != nil {
		if text := err.Error(); !s.reasons[text] {
			s.reasons[text] = true
			s.env.Log("etcd cannot be called: " + text)
		}
		return false
	}
	s.calls[id] = done
	return true
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

// lasting is how long an entry must last at least.
func lasting(t ledger.Terms) time.Duration { return max(t.TTL, t.Window) }
