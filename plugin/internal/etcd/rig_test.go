package etcd

import (
	"errors"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/etcd/etcdsim"
	"github.com/callonce/callonce/plugin/internal/ledger"
)

// rig is one worker over a simulated etcd, whose calls are answered when the test says so.
type rig struct {
	t        *testing.T
	cluster  *etcdsim.Cluster
	store    *Store
	local    *fakeLocal
	ids      CallID
	calls    []rigCall
	timeouts []time.Duration
	answers  map[ledger.Token]ledger.Answer
	live     map[ledger.Token]bool
	logs     []string
	up       []bool
	reasons  map[Reason]int
	late     []ledger.Event
	notices  []ledger.Notice
	err      error // of each call
	status   int   // of each call instead of etcd's answer; 0 = etcd's
	tokens   uint32
}

type rigCall struct {
	id      CallID
	method  string
	message []byte
}

const rigTTL = time.Minute

func newRig(t *testing.T) *rig {
	r := &rig{t: t, cluster: etcdsim.New(), local: &fakeLocal{}, answers: map[ledger.Token]ledger.Answer{}, live: map[ledger.Token]bool{}, reasons: map[Reason]int{}}
	r.cluster.Advance(time.Hour)
	r.store = Open(Env{
		Caller: r, Sink: r, Now: r.now, Wall: func() int64 { return int64(r.now()) }, Random: func(b []byte) {
			r.tokens++
			for i := range b {
				b[i] = byte(r.tokens >> (8 * (i % 4)))
			}
		},
		Log: func(text string) { r.logs = append(r.logs, text) }, Live: func(t ledger.Token) bool { return r.live[t] }, Local: r.local,
		Up: func(up bool) { r.up = append(r.up, up) }, Trouble: func(why Reason) { r.reasons[why]++ },
		Count: func(what ledger.Notice, _ uint64) { r.notices = append(r.notices, what) },
		Late:  func(_ uint64, ev ledger.Event) { r.late = append(r.late, ev) },
	}, Options{Prefix: "/callonce/", Cluster: "etcd", Timeout: 250 * time.Millisecond, Lease: 15 * time.Second, TTLs: []time.Duration{rigTTL}})
	return r
}

// ready is a rig whose worker has its leases.
func ready(t *testing.T) *rig {
	r := newRig(t)
	r.tick()
	if !r.store.ready(rigTTL) {
		t.Fatal("no leases after the first tick")
	}
	return r
}

func (r *rig) now() ledger.Mono { return ledger.Mono(r.cluster.Now()) }

func (r *rig) pass(d time.Duration) { r.cluster.Advance(r.cluster.Now() + d) }

func (r *rig) Call(_, method string, message []byte, timeout time.Duration) (CallID, error) {
	if r.err != nil {
		return 0, r.err
	}
	r.ids++
	r.calls = append(r.calls, rigCall{r.ids, method, message})
	r.timeouts = append(r.timeouts, timeout)
	return r.ids, nil
}

func (r *rig) Answered(t ledger.Token, a ledger.Answer) {
	if _, twice := r.answers[t]; twice {
		r.t.Error("a second answer")
	}
	r.answers[t] = a
}

// one answers the oldest call.
func (r *rig) one() {
	c := r.calls[0]
	r.calls = r.calls[1:]
	if r.status != 0 {
		r.store.Answered(c.id, r.status, nil)
		return
	}
	status, message := r.cluster.Apply(c.method, c.message)
	r.store.Answered(c.id, status, message)
}

func (r *rig) all() {
	for len(r.calls) > 0 {
		r.one()
	}
}

func (r *rig) tick() {
	r.store.Tick(r.now())
	r.all()
}

// begin asks, and leaves the call under way.
func (r *rig) begin(key byte) (t ledger.Token, at ledger.Answer, now bool) {
	return r.claim(ledger.Claim{ID: [32]byte{key}, Fingerprint: [32]byte{1}, Policy: 1, Terms: ledger.Terms{TTL: rigTTL}})
}

func (r *rig) claim(c ledger.Claim) (t ledger.Token, at ledger.Answer, now bool) {
	r.tokens++
	t = ledger.Token{Stream: r.tokens, Generation: 1}
	r.live[t] = true
	a, now := r.store.Ask(t, c)
	return t, a, now
}

// ask asks and lets etcd answer.
func (r *rig) ask(key byte) (ledger.Token, ledger.Answer) {
	r.t.Helper()
	t, a, now := r.begin(key)
	if now {
		return t, a
	}
	r.all()
	a, ok := r.answers[t]
	if !ok {
		r.t.Fatal("no answer")
	}
	return t, a
}

func (r *rig) want(key byte, v ledger.Verdict) (ledger.Token, ledger.Answer) {
	r.t.Helper()
	t, a := r.ask(key)
	if a.Verdict != v {
		r.t.Fatalf("key %d: got verdict %d, want %d", key, a.Verdict, v)
	}
	return t, a
}

// ends is the stream's end.
func (r *rig) ends(t ledger.Token) { delete(r.live, t) }

var errNoCluster = errors.New("no such cluster")

// fakeLocal counts as the ledger in shared data would.
type fakeLocal struct {
	full     bool
	broken   bool
	fence    uint64
	open     map[uint64]bool
	settled  []ledger.Event
	messages int
	ticks    int
}

func (f *fakeLocal) Ask(_ ledger.Token, c ledger.Claim) (ledger.Answer, bool) {
	switch {
	case f.broken:
		return ledger.Answer{Verdict: ledger.RefusedUnavailable}, true
	case f.full:
		return ledger.Answer{Verdict: ledger.RefusedCapacity, RetryAfter: 7 * time.Second}, true
	}
	f.fence++
	if f.open == nil {
		f.open = map[uint64]bool{}
	}
	f.open[f.fence] = true
	return ledger.Answer{Verdict: ledger.First, Lease: ledger.Lease{ID: c.ID, Fence: f.fence}}, true
}

func (f *fakeLocal) Settle(l ledger.Lease, o ledger.Outcome) ledger.Settled {
	delete(f.open, l.Fence)
	f.settled = append(f.settled, o.Event)
	f.messages += len(o.Reply.Message)
	return ledger.Applied
}

func (f *fakeLocal) Forget(ledger.Token) {}
func (f *fakeLocal) Tick(ledger.Mono)    { f.ticks++ }
