package etcd

import (
	"slices"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// asked is a claim under way.
type asked struct {
	token   ledger.Token
	claim   ledger.Claim
	key     string
	began   ledger.Mono
	record  record // as it is to be written
	encoded []byte
	gone    bool // nobody waits for it any more
	tries   int
	seen    record // what was found, where it is to be taken over
	seenRev int64

	local   ledger.Lease // what counts the call in this proxy
	counted bool
	full    *ledger.Answer // there is no room to count it: what a key that nobody has gets
}

// maxTries bounds how often one claim goes back to etcd because others were quicker.
const maxTries = 3

// maxStrays bounds the claims without an answer: more are not made until etcd has said what became of some.
const maxStrays = 1024

var unavailable = ledger.Answer{Verdict: ledger.RefusedUnavailable}

// Ask implements ledger.Store. It waits for etcd unless it can tell already that it must refuse.
func (s *Store) Ask(t ledger.Token, c ledger.Claim) (ledger.Answer, bool) {
	switch {
	case !s.ready(lasting(c.Terms)), s.asking[t] != nil:
		s.trouble(NotReady)
		return unavailable, true
	case s.down(), len(s.strays) >= maxStrays:
		s.trouble(s.health.last)
		return unavailable, true
	}
	a := &asked{token: t, claim: c, key: s.recordKey(&c.ID), began: s.env.Now()}
	if !s.count(a) {
		s.trouble(Uncounted)
		return unavailable, true
	}
	a.record = record{
		state: ledger.InFlight, attempt: 1, fingerprint: c.Fingerprint, holder: s.self.incarnation, nonce: s.number(),
		session: c.Session, request: c.Request, claimed: s.wall(), policy: c.Policy, tool: c.Tool, scope: c.Shown,
	}
	a.encoded = a.record.encode()
	var x txn
	done := func(r *txnResponse) { s.claimed(a, r) }
	if a.full == nil {
		x.compare(a.key, targetCreate, equal, 0)
		s.write(&x, a)
		x.otherwise(opRange(s.holderKey(s.self.incarnation)))
	} else {
		x.then(opRange(a.key))
		done = func(r *txnResponse) { s.looked(a, r) }
	}
	if !s.txnWithin(&x, s.opts.Timeout, done) {
		s.uncount(a)
		return unavailable, true
	}
	s.asking[t] = a
	return ledger.Answer{}, false
}

// count counts a claim among those of this proxy, under an id of its own: which keys there are etcd alone knows. It is false where the
// proxy cannot tell.
func (s *Store) count(a *asked) bool {
	if s.env.Local == nil {
		return true
	}
	c := a.claim
	s.env.Random(c.ID[:])
	answer, now := s.env.Local.Ask(a.token, c)
	switch {
	case now && answer.Verdict == ledger.First:
		a.local, a.counted = answer.Lease, true
	case now && answer.Verdict == ledger.RefusedCapacity:
		a.full = &answer
	default:
		return false
	}
	return true
}

// uncount says that a claim came to nothing.
func (s *Store) uncount(a *asked) {
	if a.counted {
		a.counted = false
		s.env.Local.Settle(a.local, ledger.Outcome{Event: ledger.Release})
	}
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
		s.fail(a, Unreadable)
	case !r.ranges[1].found:
		s.lapsed()
		s.fail(a, NotReady)
	default:
		s.found(a, r.ranges[0])
	}
}

// looked takes the answer where there was no room for a claim.
func (s *Store) looked(a *asked, r *txnResponse) {
	switch {
	case r == nil:
		s.refuse(a, ledger.RefusedUnavailable)
	case len(r.ranges) != 1:
		s.fail(a, Unreadable)
	case !r.ranges[0].found:
		s.answer(a, *a.full)
	default:
		s.found(a, r.ranges[0])
	}
}

// found decides by the record that lies under the key.
func (s *Store) found(a *asked, r rangeResponse) {
	if !r.found {
		s.fail(a, Contended) // gone meanwhile
		return
	}
	old, ok := decodeRecord(r.kv.value)
	if !ok {
		s.tell(ledger.Foreign, a.claim.Policy)
		s.fail(a, Unreadable)
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
	// Whether its holder lives; and whether it has settled meanwhile, since an answer may reach its caller, who repeats, a moment
	// before its settlement reaches etcd.
	var x txn
	x.then(opRange(s.holderKey(old.holder)))
	x.then(opRange(a.key))
	if !s.txnFor(a, &x, func(r *txnResponse) { s.checked(a, r) }) {
		s.refuse(a, ledger.RefusedUnavailable)
	}
}

// checked takes the answer of the second trip.
func (s *Store) checked(a *asked, r *txnResponse) {
	switch {
	case r == nil:
		s.refuse(a, ledger.RefusedUnavailable)
		return
	case len(r.ranges) != 2:
		s.fail(a, Unreadable)
		return
	}
	alive, now := r.ranges[0].found, r.ranges[1]
	st := ledger.InFlight
	switch {
	case now.found && now.kv.modRevision != a.seenRev:
		old, ok := decodeRecord(now.kv.value)
		if ok && old.state != ledger.InFlight {
			a.seen, a.seenRev, st = old, now.kv.modRevision, old.state
		}
		// Claimed anew, by whomever, a moment ago: in flight.
	case !now.found, alive:
	default:
		st, _ = state.Next(ledger.InFlight, ledger.LoseLease)
	}
	s.judge(a, st)
}

// judge answers, or takes the key over.
func (s *Store) judge(a *asked, st ledger.State) {
	old := &a.seen
	v := state.Judge(&state.Found{State: st, Same: old.fingerprint == a.claim.Fingerprint, Task: old.reply.Task, Held: old.held}, &a.claim)
	if v == ledger.First {
		s.takeOver(a)
		return
	}
	answer := ledger.Answer{Verdict: v, Prior: s.prior(old)}
	if v == ledger.Replay {
		answer.Reply = old.reply
	}
	s.answer(a, answer)
}

// takeOver claims a key of unknown outcome, unless anybody changed it meanwhile or its holder lives.
func (s *Store) takeOver(a *asked) {
	switch a.tries++; {
	case a.full != nil:
		s.answer(a, *a.full)
		return
	case a.tries > maxTries:
		s.fail(a, Contended)
		return
	case a.gone || !s.ready(lasting(a.claim.Terms)):
		s.fail(a, NotReady)
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
	if !s.txnFor(a, &x, func(r *txnResponse) { s.claimed(a, r) }) {
		s.refuse(a, ledger.RefusedUnavailable)
	}
}

// txnFor begins another transaction of a claim, in the time that it has left. It is false where there is none left.
func (s *Store) txnFor(a *asked, x *txn, done func(*txnResponse)) bool {
	left := s.opts.Timeout - time.Duration(s.env.Now()-a.began)
	if left < time.Millisecond {
		s.trouble(Unreachable)
		return false
	}
	return s.txnWithin(x, left, done)
}

// fail answers that the store cannot, for a reason that is no failed call's.
func (s *Store) fail(a *asked, why Reason) {
	s.trouble(why)
	s.refuse(a, ledger.RefusedUnavailable)
}

func (s *Store) refuse(a *asked, v ledger.Verdict) { s.answer(a, ledger.Answer{Verdict: v}) }

func (s *Store) answer(a *asked, answer ledger.Answer) {
	if s.asking[a.token] == a {
		delete(s.asking, a.token)
	}
	if answer.Verdict != ledger.First {
		s.uncount(a)
	}
	if !a.gone {
		a.gone = true
		s.env.Sink.Answered(a.token, answer)
	}
}

// overdue answers the claims that have waited for longer than they may: the proxy should have ended their calls.
func (s *Store) overdue(now ledger.Mono) {
	for _, a := range s.asking {
		if time.Duration(now-a.began) > s.opts.Timeout+time.Second {
			s.fail(a, Unreachable) // what it still wins is released
		}
	}
}

// won makes a grant of a claim. Where nobody waits for it the call is not sent: the key is free again.
func (s *Store) won(a *asked, revision int64) {
	h := &grant{
		Lease: ledger.Lease{
			ID: a.claim.ID, Fence: uint64(revision), Holder: a.record.holder, Claimed: a.began, Attempt: a.record.attempt, Root: a.claim.Root,
			Policy: a.claim.Policy, Budget: a.claim.Budget, Limits: a.claim.Limits, Terms: a.claim.Terms,
		},
		key: a.key, record: a.record, revision: revision, state: ledger.InFlight, local: a.local, counted: a.counted,
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
		answer.Prior = s.prior(&a.seen)
	}
	s.answer(a, answer)
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
