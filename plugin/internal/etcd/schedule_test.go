package etcd

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/etcd/etcdsim"
	"github.com/callonce/callonce/plugin/internal/ledger"
)

var (
	seeds     = flag.Int("seeds", usually(1500), "schedules to play")
	histories = flag.Int("histories", usually(300), "histories to judge; each takes longer to judge than to play")
)

// usually is n, or 10,000 in a long run.
func usually(n int) int {
	if os.Getenv("CALLONCE_LONG_RUN") != "" {
		return 10_000
	}
	return n
}

const (
	simTTL     = 2 * time.Hour // longer than any schedule: an entry that ends is one that was lost
	simLease   = 15 * time.Second
	simTimeout = 250 * time.Millisecond
	// lateness is how long after it was given up a request may still be applied.
	lateness = ledger.Mono(7 * time.Second)
)

// fault is a bug to plant between a store and etcd.
type fault func(method string, request []byte) (changed []byte, swallow bool)

// world is several workers over one etcd, their clients, and what goes wrong between them, by a seed.
type world struct {
	*etcdsim.Cluster
	history
	rng     *rand.Rand
	workers []*worker
	calls   []*pendingCall
	runs    []*run
	asks    map[ledger.Token]*ask
	tokens  uint32
	fault   fault
	tweak   func(*Store) // a bug within the store, planted before each step
	givenUp int          // how many of a hundred calls are given up, and perhaps applied late
	calm    bool         // nothing goes wrong any more
	err     error
	wrote   map[int64]uint64                 // the nonce of each claim, by its revision
	came    map[uint64]map[ledger.State]bool // what a claim's record has been, by its nonce
	steady  bool                             // nothing happens to etcd as a whole
	blind   bool                             // nothing is held against the rules: only the history counts
	steps   []string
}

type worker struct {
	*world
	n     int
	store *Store
	ids   CallID
}

type pendingCall struct {
	worker  *worker
	store   *Store // of the life that called
	id      CallID
	method  string
	message []byte
	applied bool
	status  int
	answer  []byte
	failed  ledger.Mono // when it was given up; 0 = it was not
}

type ask struct {
	worker *worker
	key    byte
	final  bool
	gone   bool
	answer *ledger.Answer
	store  *Store
	deed   *deed
}

// run is a call that a client was told to run.
type run struct {
	key      byte
	worker   *worker
	store    *Store
	token    ledger.Token
	lease    ledger.Lease
	released bool // it has certainly not run
	ended    bool
}

func newSchedule(seed uint64, workers int) *world {
	w := &world{Cluster: etcdsim.New(), rng: rand.New(rand.NewPCG(seed, 0xe7cd)), asks: map[ledger.Token]*ask{}, givenUp: 6,
		wrote: map[int64]uint64{}, came: map[uint64]map[ledger.State]bool{}}
	w.Cluster.Advance(1)
	w.Wrote = w.watch
	for n := range workers {
		k := &worker{world: w, n: n}
		w.workers = append(w.workers, k)
		k.live()
	}
	return w
}

func (k *worker) live() {
	k.store = Open(Env{
		Caller: k, Sink: k, Now: k.time, Wall: func() int64 { return int64(k.time()) }, Log: func(string) {},
		Late:  k.settledLate,
		Count: k.counted,
		Random: func(b []byte) {
			for i := range b {
				b[i] = byte(k.rng.Uint32())
			}
		},
	}, Options{Prefix: "/callonce/", Timeout: simTimeout, Lease: simLease, TTLs: []time.Duration{simTTL}})
}

func (w *world) time() ledger.Mono { return ledger.Mono(w.Now()) }

func (w *world) pass(d time.Duration) { w.Advance(w.Now() + d) }

func (w *world) note(format string, args ...any) {
	w.steps = append(w.steps, fmt.Sprintf(format, args...))
}

func (w *world) violated(format string, args ...any) {
	if w.err == nil && !w.blind {
		w.err = fmt.Errorf(format, args...)
	}
}

// Call implements Caller.
func (k *worker) Call(_, method string, message []byte, _ time.Duration) (CallID, error) {
	if !k.calm && k.rng.IntN(60) == 0 {
		return 0, errors.New("no such cluster")
	}
	if k.fault != nil {
		changed, swallow := k.fault(method, message)
		if swallow {
			return 0, errors.New("swallowed")
		}
		message = changed
	}
	k.ids++
	k.calls = append(k.calls, &pendingCall{worker: k, store: k.store, id: k.ids, method: method, message: slices.Clone(message)})
	return k.ids, nil
}

// Answered implements ledger.Sink.
func (k *worker) Answered(t ledger.Token, a ledger.Answer) {
	q := k.asks[t]
	switch {
	case q == nil || q.answer != nil:
		k.violated("an answer for nobody, or a second one")
		return
	case q.gone:
		k.violated("an answer for one who has gone")
		return
	}
	a.Reply.Message = slices.Clone(a.Reply.Message)
	q.answer = &a
	k.answered(q, a)
	k.note("worker %d: key %d: verdict %d", k.n, q.key, a.Verdict)
	switch a.Verdict {
	case ledger.First:
		k.first(t, q, a)
	case ledger.Replay:
		if !slices.ContainsFunc(k.runs, func(r *run) bool { return r.key == q.key && string(a.Reply.Message) == message(r) }) {
			k.violated("the reply %q is of no run of key %d", a.Reply.Message, q.key)
		}
	}
}

func message(r *run) string { return fmt.Sprintf("key %d run %d", r.key, r.lease.Fence) }

// retries says that claims of a key take unknown outcomes over.
func retries(key byte) bool { return key%2 == 1 }

func (k *worker) first(t ledger.Token, q *ask, a ledger.Answer) {
	for _, r := range k.runs {
		if r.key == q.key && !r.released && !retries(q.key) {
			k.violated("key %d runs again (worker %d) though it may have run (worker %d)", q.key, k.n, r.worker.n)
		}
		if r.key == q.key && r.lease.Fence >= a.Lease.Fence {
			k.violated("the fence of key %d does not grow", q.key)
		}
	}
	k.runs = append(k.runs, &run{key: q.key, worker: k, store: k.store, token: t, lease: a.Lease})
}

func (w *world) ask(k *worker, key byte, final bool) *ask {
	w.tokens++
	t := ledger.Token{Stream: w.tokens, Generation: 1}
	q := &ask{worker: k, key: key, final: final, store: k.store}
	q.deed = w.add(deed{kind: claims, key: key, retry: retries(key), holder: k.store.self.incarnation})
	w.asks[t] = q
	c := ledger.Claim{ID: [32]byte{key}, Fingerprint: [32]byte{1}, Policy: uint64(w.tokens), RetryUnknown: retries(key), Terms: ledger.Terms{TTL: simTTL}}
	if a, now := k.store.Ask(t, c); now {
		k.Answered(t, a)
		q.deed.kind = nothing // was sent
	}
	return q
}

// settle ends a run in one of the ways that there are.
func (w *world) settle(r *run) {
	r.ended = true
	if r.store != r.worker.store {
		return // its worker has gone
	}
	w.note("worker %d: key %d ends", r.worker.n, r.key)
	complete := ledger.Outcome{Event: ledger.Complete, Reply: ledger.Reply{Status: 200, Message: []byte(message(r))}}
	end := func(ev ledger.Event) { w.settles(r, ev) }
	switch n := w.rng.IntN(10); {
	case n < 5:
		end(ledger.Complete)
		r.store.Settle(r.lease, complete)
		if w.rng.IntN(8) == 0 {
			end(ledger.MarkUnknown)
			r.store.Settle(r.lease, ledger.Outcome{Event: ledger.MarkUnknown})
		}
	case n < 7:
		r.released = true
		end(ledger.Release)
		r.store.Settle(r.lease, ledger.Outcome{Event: ledger.Release})
	case n == 7:
		end(ledger.MarkNotReplayable)
		r.store.Settle(r.lease, ledger.Outcome{Event: ledger.MarkNotReplayable})
	default:
		end(ledger.MarkUnknown) // by Forget
	}
	r.store.Forget(r.token)
}

// step lets one thing happen.
func (w *world) step() {
	if w.tweak != nil {
		for _, k := range w.workers {
			w.tweak(k.store)
		}
	}
	k := w.workers[w.rng.IntN(len(w.workers))]
	switch n := w.rng.IntN(100); {
	case n < 45 && len(w.calls) > 0:
		w.carry(w.rng.IntN(len(w.calls)))
	case n < 60:
		w.ask(k, byte(w.rng.IntN(4)), false)
	case n < 75:
		k.store.Tick(w.time())
	case n < 85:
		if open := w.openRuns(); len(open) > 0 {
			w.settle(open[w.rng.IntN(len(open))])
		}
	case n < 90:
		for t, q := range w.asks {
			if q.answer == nil && !q.gone && t.Stream == w.tokens {
				q.gone = true
				w.note("worker %d: the client of key %d leaves", q.worker.n, q.key)
				q.worker.store.Forget(t)
			}
		}
	case n < 92:
		w.note("worker %d crashes", k.n)
		k.live()
		for t, q := range w.asks {
			if q.worker == k && q.answer == nil {
				q.deed.kind = haunts
				delete(w.asks, t)
			}
		}
	case w.steady && (n < 99 || w.rng.IntN(4) > 0), !w.steady && (n < 98 || w.rng.IntN(4) > 1):
		w.pass(time.Duration(w.rng.IntN(400)) * time.Millisecond)
	case w.steady:
		w.standStill()
	default:
		w.trouble()
	}
}

// standStill lets time pass in which nobody gets to do anything.
func (w *world) standStill() {
	d := time.Duration(w.rng.IntN(40)) * time.Second
	w.note("%v pass", d)
	w.pass(d)
}

// trouble is what happens to etcd as a whole.
func (w *world) trouble() {
	switch w.rng.IntN(5) {
	case 0, 1:
		w.standStill()
	case 2:
		w.note("a new leader")
		w.NewLeader()
		for len(w.calls) > 0 { // applied or not: nobody is told
			c := w.calls[0]
			w.calls = w.calls[1:]
			if c.failed == 0 && c.store == c.worker.store {
				c.store.Answered(c.id, etcdsim.Unavailable, nil)
			}
		}
	case 3:
		w.Full = !w.Full
		w.note("no space: %v", w.Full)
	case 4:
		w.Denied = !w.Denied
		w.note("denied: %v", w.Denied)
	}
}

func (w *world) openRuns() []*run {
	var out []*run
	for _, r := range w.runs {
		if !r.ended {
			out = append(out, r)
		}
	}
	return out
}

// carry moves a call on: to etcd, or its answer back, or neither.
func (w *world) carry(at int) {
	c := w.calls[at]
	drop := func() { w.calls = slices.Delete(w.calls, at, at+1) }
	back := func(status int, answer []byte) {
		if c.failed == 0 && c.store == c.worker.store {
			c.store.Answered(c.id, status, answer)
		}
	}
	luck := 99
	if !w.calm {
		luck = w.rng.IntN(100)
	}
	switch {
	case c.failed != 0: // given up, and still on its way
		drop()
		if w.time()-c.failed < lateness && luck < 60 {
			w.note("worker %d: %s is applied late", c.worker.n, c.method)
			w.Apply(c.method, c.message)
		}
	case c.applied:
		drop()
		if luck < 10 {
			w.note("worker %d: an answer to %s is lost", c.worker.n, c.method)
			back(etcdsim.Unavailable, nil)
			return
		}
		back(c.status, c.answer)
	case luck < 4: // lost on the way there
		drop()
		back(etcdsim.Unavailable, nil)
	case luck < 4+w.givenUp:
		w.note("worker %d: %s is given up", c.worker.n, c.method)
		back(etcdsim.Unavailable, nil)
		c.failed = w.time()
	default:
		c.applied = true
		c.status, c.answer = w.Apply(c.method, c.message)
	}
}

// heal lets everything come to rest, and looks at what is left.
func (w *world) heal() {
	w.calm, w.Full, w.Denied = true, false, false
	for _, r := range w.openRuns() {
		w.settle(r)
	}
	rest := func(rounds int) {
		for range rounds {
			for _, k := range w.workers {
				k.store.Tick(w.time())
			}
			for len(w.calls) > 0 && w.err == nil {
				w.carry(0)
			}
			w.pass(4 * time.Second)
			w.vanished()
		}
	}
	rest(30)
	for _, r := range w.openRuns() {
		w.settle(r) // won by claims that were under way
	}
	rest(5)
	w.atRest()
	for key := range byte(4) {
		for _, k := range w.workers {
			q := w.ask(k, key, true)
			for len(w.calls) > 0 {
				w.carry(0)
			}
			switch {
			case q.answer == nil:
				w.violated("key %d is not answered", key)
			case q.answer.Verdict == ledger.RefusedInFlight || q.answer.Verdict == ledger.RefusedUnavailable:
				w.violated("key %d is stuck: verdict %d", key, q.answer.Verdict)
			}
			for _, r := range w.openRuns() {
				w.settle(r)
			}
			rest(2)
		}
	}
	for _, k := range w.workers {
		if len(k.store.strays) > 0 || len(k.store.grants) > 0 || len(k.store.asking) > 0 {
			w.violated("worker %d keeps %d strays, %d grants and %d claims", k.n, len(k.store.strays), len(k.store.grants), len(k.store.asking))
		}
	}
}

func playSeed(seed uint64, plant func(*world)) (*world, error) {
	w := newSchedule(seed, 3)
	if plant != nil {
		plant(w)
	}
	for range 25 {
		for _, k := range w.workers {
			k.store.Tick(w.time())
		}
		for len(w.calls) > 0 {
			w.carry(0)
		}
	}
	for range 400 {
		w.step()
		if w.vanished(); w.err != nil {
			break
		}
	}
	if w.err == nil {
		w.heal()
	}
	return w, w.err
}

// Whatever is lost, late or dead: no key runs twice that may not, no settlement of another claim is taken, nothing stays stuck.
func TestSchedules(t *testing.T) {
	runs, replays := 0, 0
	for seed := range uint64(*seeds) {
		w, err := playSeed(seed+1, nil)
		if err != nil {
			t.Fatalf("seed %d: %v\n  %s", seed+1, err, strings.Join(w.steps[max(0, len(w.steps)-60):], "\n  "))
		}
		runs += len(w.runs)
		for _, q := range w.asks {
			if q.answer != nil && q.answer.Verdict == ledger.Replay {
				replays++
			}
		}
	}
	t.Logf("%d schedules, %d runs, %d replays", *seeds, runs, replays)
	if runs < 2**seeds || replays < *seeds {
		t.Errorf("too little happens to show anything")
	}
}
