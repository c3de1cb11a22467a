package etcd

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/callonce/callonce/plugin/internal/etcd/etcdsim"
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/modeltest"
)

// modelled is two workers, of a proxy each, under the model of every store. What etcd promises differently: an entry lasts a step longer
// at most, and a holder that was silent may settle what nobody took over. When either happens within these bounds the simulation says.
// Limits are those of each proxy, and its shared data counts them: they have their own tests.
type modelled struct {
	cluster *etcdsim.Cluster
	workers [2]*modelWorker
	ticked  map[uint64]ledger.Mono // when a worker ticked last, by its incarnation
}

type modelWorker struct {
	*modelled
	store   *Store
	ids     CallID
	calls   []rigCall
	tokens  uint32
	answers map[ledger.Token]ledger.Answer
	ended   map[ledger.Token]bool
	said    int // settlements that were taken, or found to be fenced:
	fenced  bool
	ticks   []ledger.Mono
}

const (
	modelTTL   = time.Minute
	modelLease = 15 * time.Second
	third      = ledger.Mono(modelLease / 3) // between two signs of life
)

func openModelled(t *rapid.T) modeltest.Store {
	m := &modelled{cluster: etcdsim.New(), ticked: map[uint64]ledger.Mono{}}
	m.cluster.Advance(time.Hour)
	seed := rapid.Uint32().Draw(t, "seed")
	for i := range m.workers {
		w := &modelWorker{modelled: m, answers: map[ledger.Token]ledger.Answer{}, ended: map[ledger.Token]bool{}}
		m.workers[i] = w
		w.store = Open(Env{
			Caller: w, Sink: w, Now: m.Now, Wall: func() int64 { return int64(m.Now()) }, Log: func(string) {},
			Random: func(b []byte) {
				seed++
				for i := range b {
					b[i] = byte(seed >> (8 * (i % 4)))
				}
			},
			Live: func(t ledger.Token) bool { return !w.ended[t] },
			Late: func(uint64, ledger.Event) { w.said++ },
			Count: func(what ledger.Notice, _ uint64) {
				if what == ledger.LateFenced {
					w.said, w.fenced = w.said+1, true
				}
			},
		}, Options{Prefix: "/callonce/", Timeout: 250 * time.Millisecond, Lease: modelLease, TTLs: []time.Duration{modelTTL}})
		m.Tick(i)
	}
	return m
}

func (w *modelWorker) Call(_, method string, message []byte, _ time.Duration) (CallID, error) {
	w.ids++
	w.calls = append(w.calls, rigCall{w.ids, method, message})
	return w.ids, nil
}

func (w *modelWorker) Answered(t ledger.Token, a ledger.Answer) { w.answers[t] = a }

func (w *modelWorker) all() {
	for len(w.calls) > 0 {
		c := w.calls[0]
		w.calls = w.calls[1:]
		status, message := w.cluster.Apply(c.method, c.message)
		w.store.Answered(c.id, status, message)
	}
}

// Tick ticks until a worker that etcd had lost is another one, with what it left said.
func (m *modelled) Tick(worker int) {
	w := m.workers[worker]
	for range 3 {
		w.store.Tick(m.Now())
		w.all()
	}
	m.ticked[w.store.self.incarnation] = m.Now()
	w.ticks = append(w.ticks, m.Now())
}

func (m *modelled) Now() ledger.Mono { return ledger.Mono(m.cluster.Now()) }

func (m *modelled) Pass(d time.Duration) { m.cluster.Advance(m.cluster.Now() + d) }

func (m *modelled) Claim(_ *rapid.T, key int) ledger.Claim {
	return ledger.Claim{ID: [32]byte{byte(key)}, Fingerprint: [32]byte{1}, Policy: 1, Terms: ledger.Terms{TTL: modelTTL, LeaseTTL: modelLease}}
}

// Ready is false of a worker that was silent for too long, and must become another before it claims.
func (m *modelled) Ready(worker int) bool {
	s := m.workers[worker].store
	return s.ready(modelTTL) && m.cluster.Keys[s.holderKey(s.self.incarnation)] != nil
}

func (m *modelled) Ask(t *rapid.T, worker int, c ledger.Claim) (ledger.Token, ledger.Answer) {
	w := m.workers[worker]
	w.tokens++
	token := ledger.Token{Stream: w.tokens, Generation: 1}
	a, now := w.store.Ask(token, c)
	if w.all(); !now {
		var ok bool
		if a, ok = w.answers[token]; !ok {
			t.Fatal("no answer")
		}
	}
	return token, a
}

func (m *modelled) Settle(t *rapid.T, worker int, l ledger.Lease, o ledger.Outcome) ledger.Settled {
	w := m.workers[worker]
	said := w.said
	w.fenced = false
	got := w.store.Settle(l, o)
	if w.all(); got != ledger.Pending {
		return got
	}
	switch h := w.store.grants[l.Fence]; {
	case w.fenced, h != nil && h.fenced:
		return ledger.Fenced
	case w.said == said:
		t.Fatal("nobody is told what became of a settlement")
	}
	return ledger.Applied
}

// Ended forgets those alone that had no word: of the others a worse word may follow.
func (m *modelled) Ended(s *modeltest.Stream, settled bool) {
	if !settled {
		m.workers[s.Worker].ended[s.Token] = true
	}
}

// within holds what the simulation says against the bounds that are promised.
func within(t *rapid.T, what string, is bool, now, notBefore, from ledger.Mono) bool {
	if is && now < notBefore || !is && now >= from {
		t.Fatalf("%s: %v at %v, may be from %v, must be from %v", what, is, time.Duration(now), time.Duration(notBefore), time.Duration(from))
	}
	return is
}

func (m *modelled) Lost(t *rapid.T, e *modeltest.Entry, _ int) (lost, kept bool) {
	holder := e.Stream.Lease.Holder
	dead := m.cluster.Keys[fmt.Sprintf("/callonce/h/%016x", holder)] == nil
	last := m.ticked[holder]
	return within(t, "its holder has died", dead, m.Now(), last+2*third, last+3*third), true
}

func (m *modelled) Over(t *rapid.T, e *modeltest.Entry) bool { return m.Gone(t, e) }

func (m *modelled) Gone(t *rapid.T, e *modeltest.Entry) bool {
	x := m.cluster.Keys[fmt.Sprintf("/callonce/k/%x", e.Claim.ID)]
	gone := x == nil
	if !gone {
		if r, ok := decodeRecord(x.Value); !ok || r.attempt != e.Attempt {
			t.Fatalf("key %d: another record lies there: %+v", e.Key, r)
		}
	}
	if e.State != ledger.InFlight {
		return within(t, "it has expired", gone, m.Now(), e.Expires(), e.Settled+ledger.Mono(lasting(e.Claim.Terms)+stepOf(lasting(e.Claim.Terms))))
	}
	// As long as any incarnation of the worker signs in time, the record in flight lasts.
	lasts := m.ticked[e.Stream.Lease.Holder] + 2*third + ledger.Mono(modelTTL)
	for _, at := range m.workers[e.Holder].ticks {
		if at < lasts {
			lasts = max(lasts, at+2*third+ledger.Mono(modelTTL))
		}
	}
	return within(t, "the record in flight has ended", gone, m.Now(), lasts, 1<<62)
}

func (m *modelled) Kept(*modeltest.Entry) bool { return true }

func (m *modelled) Room(*modeltest.Model, int, int, *ledger.Claim) bool { return true }

func (m *modelled) Worse(_ *modeltest.Model, _ *modeltest.Entry, next ledger.State) ledger.State {
	return next
}

func (m *modelled) Done(*modeltest.Model, *modeltest.Entry, *ledger.Lease, int) {}

func (m *modelled) Ticked(*modeltest.Model, int) {}

func (m *modelled) Change(*rapid.T) {}

// Check holds every record against its entry.
func (m *modelled) Check(t *rapid.T, all *modeltest.Model) {
	records := 0
	for k := range m.cluster.Keys {
		if k[:len("/callonce/k/")] == "/callonce/k/" {
			records++
		}
	}
	for _, e := range all.Entries {
		if m.Gone(t, e) {
			continue
		}
		records--
		r, _ := decodeRecord(m.cluster.Keys[fmt.Sprintf("/callonce/k/%x", e.Claim.ID)].Value)
		if r.state != e.State || r.claimed != e.Claimed || r.settled != e.Settled {
			t.Fatalf("key %d: state %d, claimed %v, settled %v; want %d, %v, %v", e.Key, r.state, r.claimed, r.settled, e.State, e.Claimed, e.Settled)
		}
	}
	if records != 0 {
		t.Fatalf("%d records that the model does not know", records)
	}
}

// The model of every store, on etcd.
func TestAgainstModel(t *testing.T) {
	seen := modeltest.Run(t, openModelled)
	for v := ledger.First; v < ledger.RefusedCapacity; v++ {
		if seen[v] == 0 {
			t.Errorf("verdict %d never happened", v)
		}
	}
}
