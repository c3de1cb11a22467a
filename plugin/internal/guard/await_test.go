package guard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/etcd/etcdsim"
)

const patient = `{"namespace":"ns","policies":{"p":{"server":"srv","anonymous":true,"reply":"http","on_in_flight":"wait","wait":"5s",
	"on_store_error":"forward","limits":{"waiting":6,"waiting_per_scope":4}}},"default":"p"}`

// queues are the messages between the workers of a world.
type queues struct {
	guards []*Guard
	lost   bool
}

type queue struct {
	all *queues
	n   uint32
}

func (q queue) Queue() (uint32, bool) { return q.n, true }

func (q queue) Send(to uint32, message []byte) {
	if g := q.all.guards[to]; !q.all.lost {
		g.Woken(slices.Clone(message))
	}
}

// wired is a worker with a queue.
func (q *queues) wired(w *world, config string) *Guard {
	g := w.worker(config)
	g.Queues = queue{q, uint32(len(q.guards))}
	g.awaiting.wakes.queues = g.Queues
	q.guards = append(q.guards, g)
	return g
}

func (x *exchange) wantHeld() {
	x.t.Helper()
	if x.sent || x.resumed || x.status != 0 {
		x.t.Fatalf("expected the request to be held, found sent %v, resumed %v, status %d: %s", x.sent, x.resumed, x.status, x.reply)
	}
}

// wantIdle checks that nothing is left over of those that waited.
func wantIdle(t *testing.T, w *world, guards ...*Guard) {
	t.Helper()
	for _, g := range guards {
		a := &g.awaiting
		if a.bytes+len(a.byID)+len(a.keys)+len(a.policy)+len(a.scope)+len(g.waiting)+len(g.open) != 0 {
			t.Errorf("left over: %d, %d keys, %d policies, %d scopes, %d asked, %d open", len(a.byID), len(a.keys), len(a.policy), len(a.scope), len(g.waiting), len(g.open))
		}
	}
	for name, v := range w.gauges {
		if v != 0 && name == "namespace=.=ns;.;server=.=srv;.;callonce_waiting" {
			t.Errorf("the gauge says %d", v)
		}
	}
}

const waitingGauge = "namespace=.=ns;.;server=.=srv;.;callonce_waiting"

// Repeats of a call in flight, in the worker that runs it and in another, wait and get its answer under their own ids
// as soon as it has settled; a conflict is told at once.
func TestRepeatsWait(t *testing.T) {
	w := newWorld(t)
	var q queues
	one, two := q.wired(w, patient), q.wired(w, patient)
	call := func(g *Guard, id string) *exchange {
		return w.send(g, toolCall(id, `{}`), "idempotency-key", "k")
	}
	first := call(one, "1")
	first.wantSent()
	here, there := call(one, "2"), []*exchange{call(two, "3"), call(two, "4")}
	all := append([]*exchange{here}, there...)
	for _, x := range all {
		x.wantHeld()
	}
	two.Look() // it has begun to listen: it looks once more
	if w.gauges[waitingGauge] != 3 || w.count("mcp_gateway_idempotency_total") != 1 || w.count("callonce_duplicates_total") != 0 {
		t.Errorf("while they wait: %v, %v", w.gauges, w.counts)
	}
	w.send(two, toolCall("5", `{"other":1}`), "idempotency-key", "k").wantRefused(409, "idempotency_key_conflict")
	w.pass(1200 * time.Millisecond)
	one.Tick(w.now)
	two.Tick(w.now)
	for _, x := range all {
		x.wantHeld()
	}
	first.answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"n":7}}`)
	here.wantHeld() // not in the callback of another stream
	if first.woken == 0 {
		t.Error("nobody asks to be called again")
	}
	one.Look()
	two.Look()
	for i, x := range all {
		x.wantReplayed(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"n":7}}`, i+2))
		if x.replies != 1 || x.state["callonce.waited"] != "1200" {
			t.Errorf("%d replies, waited %s", x.replies, x.state["callonce.waited"])
		}
		x.stream.Done()
	}
	if n := w.count("mcp_gateway_idempotency_total", "outcome=.=replay"); n != 3 || w.count("callonce_waits_total", "how=.=answered") != 3 || w.count("callonce_duplicates_total") != 3 {
		t.Errorf("counted: %v", w.counts)
	}
	for _, g := range []*Guard{one, two} {
		for _, s := range slices.Clone(g.open) {
			s.Done()
		}
	}
	wantIdle(t, w, one, two)
}

// Where no message comes, the next tick finds the answer.
func TestLostWake(t *testing.T) {
	w := newWorld(t)
	q := queues{lost: true}
	one, two := q.wired(w, patient), q.wired(w, patient)
	first := w.send(one, toolCall("1", `{}`), "idempotency-key", "k")
	again := w.send(two, toolCall("2", `{}`), "idempotency-key", "k")
	again.wantHeld()
	first.answer(200, "application/json", okResult)
	two.Look()
	w.pass(time.Second)
	two.Tick(w.now)
	again.wantReplayed(`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
	again.stream.Done()
	wantIdle(t, w, one, two)
}

// How else a wait ends: by its time, which it never exceeds; by an unknown outcome; by a key that is free again, which the first of
// those that wait takes; by a client that leaves.
func TestHowWaitsEnd(t *testing.T) {
	w := newWorld(t)
	g := w.worker(patient)
	call := func(id string) *exchange { return w.send(g, toolCall(id, `{}`), "idempotency-key", "k") }
	first := call("1")
	left, over := call("2"), call("3")
	left.stream.Done()
	begun := w.now
	for over.status == 0 && w.now-begun < 1<<40 {
		w.pass(time.Second)
		g.Tick(w.now)
	}
	over.wantRefused(409, "idempotency_in_flight")
	if d := time.Duration(w.now - begun); d > 5*time.Second || d < 4*time.Second {
		t.Errorf("it waited %v of 5s", d)
	}
	over.stream.Done()
	if left.replies != 0 || w.count("callonce_waits_total", "how=.=left") != 1 || w.count("callonce_waits_total", "how=.=in_flight") != 1 {
		t.Errorf("%d replies, %v", left.replies, w.counts)
	}

	next, after := call("4"), call("5")
	first.answer(404, "text/plain", "no such tool") // it has not run
	g.Look()
	if !next.resumed || next.status != 0 || w.count("callonce_waits_total", "how=.=ran") != 1 {
		t.Fatalf("resumed %v, status %d, %v", next.resumed, next.status, w.counts)
	}
	if len(next.header("accept-encoding")) != 0 || next.header("x-envoy-max-retries")[0] != "0" {
		t.Errorf("it went on as it came: %v", next.request)
	}
	after.wantHeld()
	next.sent = true
	next.answer(502, "text/plain", "bad")
	g.Look()
	after.wantRefused(409, "idempotency_outcome_unknown")
	after.stream.Done()
	wantIdle(t, w, g)
	if n := w.count("mcp_gateway_idempotency_total"); n != 4 {
		t.Errorf("%d decisions: %v", n, w.counts)
	}
}

// A ledger that cannot tell for a while ends no wait; at its end it is told so, and the call, of which is known that it ran, is not sent on
// unguarded (on_store_error: forward).
func TestWaitOutlastsTrouble(t *testing.T) {
	w := newWorld(t)
	g := w.worker(patient)
	first := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	one, two := w.send(g, toolCall("2", `{}`), "idempotency-key", "k"), w.send(g, toolCall("3", `{}`), "idempotency-key", "k")
	w.memory.broken = true
	w.pass(time.Second)
	g.Tick(w.now)
	one.wantHeld()
	two.unreachable = true // its client has gone, and nothing has said so
	w.pass(4 * time.Second)
	g.Tick(w.now)
	one.wantRefused(503, "idempotency_unavailable")
	if two.replies != 0 || two.resumed {
		t.Error("a stream out of reach was answered")
	}
	one.stream.Done()
	two.stream.Done()
	w.memory.broken = false
	first.answer(200, "application/json", okResult)
	wantIdle(t, w, g)
}

// Those that wait are bounded by scope and by policy; more are refused at once, and counted. A policy that observes holds nobody.
func TestWaitingIsBounded(t *testing.T) {
	w := newWorld(t)
	g := w.worker(patient)
	var held []*exchange
	for scope, n := range []int{4, 2} {
		for i := range 6 {
			x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k", "authorization", fmt.Sprint(scope))
			switch {
			case i == 0:
				x.wantSent()
			case i <= n:
				x.wantHeld()
				held = append(held, x)
			default:
				x.wantRefused(409, "idempotency_in_flight")
				x.stream.Done()
			}
		}
	}
	if n := w.count("callonce_waits_total", "how=.=full"); n != 4 {
		t.Errorf("%d found no room", n)
	}
	for _, x := range held {
		x.stream.Done()
	}
	if len(g.awaiting.byID) != 0 || w.gauges[waitingGauge] != 0 {
		t.Errorf("left over: %v, %v", g.awaiting, w.gauges)
	}
	g = w.worker(`{"namespace":"o","policies":{"p":{"server":"srv","anonymous":true,"mode":"observe","on_in_flight":"wait"}},"default":"p"}`)
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantSent()
	w.send(g, toolCall("2", `{}`), "idempotency-key", "k").wantSent()
}

// A hundred repeats cost one question at a tick while the call runs.
func TestWaitingCostsOneQuestion(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"namespace":"ns","policies":{"p":{"server":"srv","anonymous":true,"on_in_flight":"wait"}},"default":"p"}`)
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	for range 100 {
		w.send(g, toolCall("2", `{}`), "idempotency-key", "k").wantHeld()
	}
	store := &slowStore{}
	g.store = store
	w.pass(time.Second)
	for range 3 {
		g.Tick(w.now)
	}
	if len(store.asked) != 1 {
		t.Errorf("%d questions, while the first has no answer", len(store.asked))
	}
}

// Over etcd a repeat at another proxy waits too: it gets the answer at the next tick, and one at the same proxy as soon as etcd has it.
func TestRepeatsWaitOverEtcd(t *testing.T) {
	r := &remote{t: t, cluster: etcdsim.New()}
	config := `{"namespace":"ns","store":{"kind":"etcd","cluster":"store"},"policies":{"p":{"reply":"http","server":"srv","anonymous":true,"on_in_flight":"wait","wait":"3s"}},"default":"p"}`
	w1, one := r.proxy(config)
	w2, two := r.proxy(config)
	send := func(w *world, g *Guard, id string) *exchange {
		x := w.send(g, toolCall(id, `{}`), "idempotency-key", "k")
		r.all()
		return x
	}
	first := send(w1, one, "1")
	here, there, third := send(w1, one, "2"), send(w2, two, "3"), send(w2, two, "4")
	for _, x := range []*exchange{here, there, third} {
		x.wantHeld()
	}
	third.stream.Done()
	first.sent = true
	first.answer(200, "application/json", okResult)
	r.all()
	here.wantReplayed(`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
	there.wantHeld()
	w2.pass(time.Second)
	two.Tick(w2.now)
	r.all()
	there.wantReplayed(`{"jsonrpc":"2.0","id":3,"result":{"content":[]}}`)
	here.stream.Done()
	there.stream.Done()

	last := send(w2, two, "5") // settled: no wait
	last.wantReplayed(`{"jsonrpc":"2.0","id":5,"result":{"content":[]}}`)
	last.stream.Done()
	wantIdle(t, w1, one)
	wantIdle(t, w2, two)
}

// The record of who listens holds so many workers, forgets those whose time is over, and leaves foreign bytes alone.
func TestWakesRecord(t *testing.T) {
	w := newWorld(t)
	got := map[uint32]int{}
	at := func(n uint32) *wakes {
		return &wakes{table: w.memory, key: wakesKey("ns"), queues: counted{n, got}}
	}
	for n := range uint32(mostWakes + 3) {
		if !at(n).listen(10, 1) {
			t.Fatalf("worker %d is not listed", n)
		}
	}
	at(999).tell([32]byte{1}, 5)
	if len(got) != mostWakes {
		t.Errorf("%d workers were told", len(got))
	}
	clear(got)
	late := 10 + listensFor + 1
	if at(999).tell([32]byte{1}, late); len(got) != 0 {
		t.Errorf("told workers that are gone: %v", got)
	}
	me := at(1)
	if !me.listen(late, late) || me.listen(late, late) {
		t.Error("it says once that it listens")
	}
	at(999).tell([32]byte{1}, late)
	me.tell([32]byte{1}, late)
	if len(got) != 1 || got[1] != 1 || len(w.memory.values[wakesKey("ns")].value) != wakesHead+wakesEach {
		t.Errorf("told: %v", got)
	}
	w.memory.values[wakesKey("ns")] = cell{[]byte("foreign"), 77}
	if me.listen(late<<1, late) {
		t.Error("foreign bytes were overwritten")
	}
	me.tell([32]byte{1}, late)
}

type counted struct {
	n   uint32
	got map[uint32]int
}

func (c counted) Queue() (uint32, bool)       { return c.n, true }
func (c counted) Send(queue uint32, _ []byte) { c.got[queue]++ }

// The copies of bodies that repeats keep while they wait are bounded in bytes, too, whoever sends them.
func TestWaitingBodiesAreBounded(t *testing.T) {
	w := newWorld(t)
	g, calls := w.calling(`{"namespace":"ns","policies":{"p":{"server":"srv","anonymous":true,"reply":"http","on_disconnect":"continue","wait":"5s","max_request_bytes":67108864}},"default":"p"}`)
	body := toolCall("1", `{"text":"`+strings.Repeat("x", mostAwaitingBytes/5*2)+`"}`)
	send := func(who string) *exchange { return w.ask(g, body, "idempotency-key", "k", "authorization", who) }
	send("a").wantHeld()
	send("b").wantHeld() // these two are calls
	held := []*exchange{send("a"), send("b")}
	for _, x := range held {
		x.wantHeld()
	}
	send("a").wantRefused(409, "idempotency_in_flight")
	held[0].stream.Done()
	send("a").wantHeld()
	if len(calls.made) != 2 {
		t.Fatalf("%d calls", len(calls.made))
	}
}
