package guard

import (
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// A repeat of a call in flight may wait for the answer (on_in_flight: wait): its stream is
// held, and nothing of it is told or counted yet. The ledger is asked again for the first of
// those that wait for a key, once a tick at most and when the key is known to have settled;
// the others follow as soon as that one has got its word. So a hundred repeats cost what one
// does while the call runs.
//
// Asking again is a claim like any other: where the key turns out to be free, since the call
// certainly did not run, the first repeat runs it and the others wait for that.

// waiter is what a call keeps that may have to wait.
type waiter struct {
	claim  ledger.Claim
	held   bool
	asking bool // the ledger was asked again, and has not answered
	last   bool // what it says next is the last word
	since  ledger.Mono
	until  ledger.Mono
	key    *awaited
	bytes  int // of its body, as they are counted
}

// awaited is a key that repeats wait for, in the order in which they came.
type awaited struct {
	id      [32]byte
	streams []*Stream
	index   int  // among the keys
	ready   bool // it has settled, as far as is known
}

// awaiting is what a worker's streams wait for.
type awaiting struct {
	byID   map[[32]byte]*awaited
	keys   []*awaited
	ready  []*awaited
	next   int            // key that the next tick begins with
	policy map[uint64]int // by the number that the ledger knows it by: what counts over the proxy counts here together
	scope  map[uint64]int
	bytes  int // of bodies that go on in place of those that came
	wakes  wakes
}

func newAwaiting() awaiting {
	return awaiting{byID: map[[32]byte]*awaited{}, policy: map[uint64]int{}, scope: map[uint64]int{}}
}

const (
	// keysPerTick bounds how many keys one tick asks the ledger for.
	keysPerTick = 256
	// mostAwaitingBytes bounds the bodies of all repeats that a worker holds, where it holds them itself: those that are edited or sent
	// by the filter. What else comes lies in the proxy only.
	mostAwaitingBytes = 64 << 20
	// tickEvery is about how often a worker ticks.
	tickEvery = ledger.Mono(time.Second)
)

// How a wait ended, as label values.
const (
	waitAnswered = "answered"  // by the first answer
	waitRan      = "ran"       // the key was free again, and this call runs
	waitInFlight = "in_flight" // the call still runs: refused
	waitRefused  = "refused"   // for another reason
	waitLeft     = "left"      // the client left
	waitFull     = "full"      // it did not wait: too many do
)

// mayWait keeps what a call needs that may have to wait.
func (s *Stream) mayWait(c *ledger.Claim) {
	if s.call.tool.Wait > 0 && !s.policy.Observe {
		s.waiter = &waiter{claim: *c}
	}
}

// waitsOn takes the ledger's answer, and reports whether the call waits, or waits on.
func (s *Stream) waitsOn(a ledger.Answer) bool {
	w := s.waiter
	if w == nil || w.last {
		return false
	}
	if w.held {
		// A store that cannot tell just now may be able to in time.
		return a.Verdict == ledger.RefusedInFlight || a.Verdict == ledger.RefusedUnavailable
	}
	return a.Verdict == ledger.RefusedInFlight && s.hold()
}

// hold begins a wait, if there is room for it.
func (s *Stream) hold() bool {
	w, g := s.waiter, s.g
	all := &g.awaiting
	if l := &s.policy.Limits; all.policy[w.claim.Policy] >= l.Waiting || all.scope[w.claim.Scope] >= l.WaitingPerScope ||
		all.bytes+cap(s.call.body) > mostAwaitingBytes {
		g.counts.add(s.label(), waitsEnded, waitFull)
		return false
	}
	w.held, w.since = true, g.now()
	w.until = w.since + ledger.Mono(s.call.tool.Wait)
	k := all.byID[w.claim.ID]
	if k == nil {
		k = &awaited{id: w.claim.ID, index: len(all.keys)}
		all.byID[k.id] = k
		all.keys = append(all.keys, k)
	}
	w.key = k
	k.streams = append(k.streams, s)
	all.policy[w.claim.Policy]++
	all.scope[w.claim.Scope]++
	w.bytes = cap(s.call.body)
	all.bytes += w.bytes
	g.counts.gauge(s.label(), waitingNow).Add(1)
	if all.wakes.listen(w.until, w.since) {
		// Who settled it until now did not know of this worker.
		g.settledKey(k.id)
		s.host.Wake()
	}
	return true
}

// endWait ends a wait, in one of the ways above.
func (s *Stream) endWait(how string) {
	w := s.waiter
	s.waiter = nil
	if w == nil || !w.held {
		return
	}
	w.held = false
	all := &s.g.awaiting
	k := w.key
	for i, other := range k.streams {
		if other == s {
			k.streams = append(k.streams[:i], k.streams[i+1:]...)
			break
		}
	}
	if len(k.streams) == 0 {
		last := all.keys[len(all.keys)-1]
		all.keys[k.index], last.index = last, k.index
		all.keys[len(all.keys)-1] = nil
		all.keys = all.keys[:len(all.keys)-1]
		delete(all.byID, k.id)
	}
	if all.policy[w.claim.Policy]--; all.policy[w.claim.Policy] == 0 {
		delete(all.policy, w.claim.Policy)
	}
	if all.scope[w.claim.Scope]--; all.scope[w.claim.Scope] == 0 {
		delete(all.scope, w.claim.Scope)
	}
	all.bytes -= w.bytes
	s.g.counts.gauge(s.label(), waitingNow).Add(-1)
	s.g.counts.add(s.label(), waitsEnded, how)
	if how != waitLeft { // else the stream may be out of reach
		s.state(stateWaited, itoa(int((s.g.now()-w.since)/ledger.Mono(time.Millisecond))))
	}
}

// failWait ends a wait after a fault of our own.
func (s *Stream) failWait() {
	defer func() { _ = recover() }()
	s.endWait(waitRefused)
}

// waitEnds says how a verdict ends a wait.
func waitEnds(v ledger.Verdict) string {
	switch v {
	case ledger.First:
		return waitRan
	case ledger.Replay:
		return waitAnswered
	case ledger.RefusedInFlight:
		return waitInFlight
	}
	return waitRefused
}

// settledKey notes that a key has settled, as far as is known. Who waits for it is looked at
// by the next Look.
func (g *Guard) settledKey(id [32]byte) (awaits bool) {
	k := g.awaiting.byID[id]
	if k == nil {
		return false
	}
	if !k.ready {
		k.ready = true
		g.awaiting.ready = append(g.awaiting.ready, k)
	}
	return true
}

// settledLease tells those who wait for a key that its lease has ended.
func (s *Stream) settledLease(h *ledger.Lease) {
	if s.g.etcd != nil {
		return // it has not taken it yet: see taken
	}
	if s.g.settledKey(h.ID) {
		s.host.Wake() // not now: this is another stream's callback
	}
	if s.call.tool != nil && s.call.tool.Wait > 0 {
		s.g.awaiting.wakes.tell(h.ID, s.g.now())
	}
}

// Woken takes what another worker has sent: the id of a key that has settled. Look follows.
func (g *Guard) Woken(message []byte) {
	if len(message) == 32 {
		g.settledKey([32]byte(message))
	}
}

// lookReady looks at the keys that have settled.
func (g *Guard) lookReady() {
	ready := g.awaiting.ready
	g.awaiting.ready = nil
	for _, k := range ready {
		k.ready = false
		g.lookAt(k)
	}
}

// lookAt asks the ledger for the first of those that wait for a key, and for the next once that one waits no more.
func (g *Guard) lookAt(k *awaited) {
	for len(k.streams) > 0 {
		if s := k.streams[0]; s.waiter.asking || !s.askAgain() {
			return
		}
	}
}

// askAgain asks the ledger again. It reports whether the call waits no more.
func (s *Stream) askAgain() bool {
	w := s.waiter
	if s.host.Enter() != nil {
		s.endWait(waitLeft)
		return true
	}
	if s.claimAgain() == Continue {
		_ = s.host.Resume()
	}
	return !w.held
}

func (s *Stream) claimAgain() (act Action) {
	defer s.contain(request, &act)
	w := s.waiter
	answer, now := s.g.store.Ask(s.token, w.claim)
	if !now {
		w.asking = true
		s.g.waiting[s.token] = s
		return Pause
	}
	return s.act(answer)
}

// lookAtWaiters is a tick's: those whose time is over get the last word, and of the keys that are waited for so many are looked at.
func (g *Guard) lookAtWaiters(now ledger.Mono) {
	all := &g.awaiting
	if len(all.keys) == 0 {
		return
	}
	type one struct {
		s     *Stream
		token ledger.Token
	}
	var over []one
	for _, k := range all.keys {
		for _, s := range k.streams {
			// The next tick would be too late.
			if now+tickEvery > s.waiter.until {
				s.waiter.last = true
				over = append(over, one{s, s.token})
			}
		}
	}
	keys := append([]*awaited(nil), all.keys...)
	for i := range min(len(keys), keysPerTick) {
		g.lookAt(keys[(all.next+i)%len(keys)])
	}
	all.next += keysPerTick
	for _, o := range over {
		if w := o.s.waiter; o.s.token == o.token && w != nil && w.held && !w.asking {
			o.s.askAgain()
		}
	}
}

// taken is told of a settlement that a store outside of the proxy has taken: the repeats in all workers can be answered now.
func (g *Guard) taken(id [32]byte) {
	g.settledKey(id)
	if g.config.Waits() {
		g.awaiting.wakes.tell(id, g.now())
	}
}
