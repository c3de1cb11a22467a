package guard

import (
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/etcd"
	"github.com/callonce/callonce/plugin/internal/etcd/etcdsim"
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/shared"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// remote is a simulated etcd, as the guards of several proxies call it: each in a world of its own.
type remote struct {
	t       *testing.T
	cluster *etcdsim.Cluster
	ids     etcd.CallID
	calls   []func()
}

type remoteCaller struct {
	*remote
	guard   func() *Guard
	cluster string
}

func (c remoteCaller) Call(_, method string, message []byte, _ time.Duration) (etcd.CallID, error) {
	if c.cluster != "store" {
		c.t.Errorf("the cluster %q is called", c.cluster)
	}
	c.ids++
	id := c.ids
	c.calls = append(c.calls, func() {
		status, answer := c.remote.cluster.Apply(method, message)
		c.guard().CallEnded(uint32(id), status, answer)
	})
	return id, nil
}

// all answers what is under way.
func (r *remote) all() {
	for len(r.calls) > 0 {
		f := r.calls[0]
		r.calls = r.calls[1:]
		f()
	}
}

// proxy is one worker of a proxy of its own.
func (r *remote) proxy(config string) (*world, *Guard) {
	r.t.Helper()
	w := newWorld(r.t)
	w.now, w.ids = 1, uint32(len(r.cluster.Keys))<<20
	c, mistakes := policy.Parse([]byte(config))
	if len(mistakes) > 0 {
		r.t.Fatal(mistakes)
	}
	g := New(c, w, func(text string) { w.logs = append(w.logs, text) })
	w.guards = append(w.guards, g)
	g.Remote = Remote{Wall: func() int64 { return int64(w.now) }, Node: "n1", Caller: func(cluster string) etcd.Caller {
		return remoteCaller{r, func() *Guard { return g }, cluster}
	}}
	err := g.Open(ledger.Env{
		Table: w.memory, Now: func() ledger.Mono { return w.now },
		Random: func(b []byte) {
			w.ids++
			for i := range b {
				b[i] = byte(w.ids >> (8 * (i % 4)))
			}
		},
	}, shared.Layout{Buckets: 4, Ways: 64, PieceBytes: 4096})
	if err != nil {
		r.t.Fatal(err)
	}
	g.Tick(w.now)
	r.all()
	return w, g
}

const overEtcd = `{"namespace":"ns","store":{"kind":"etcd","cluster":"store","prefix":"/once/"},"policies":{"p":{"reply":"http","server":"srv","anonymous":true,"strip":true,
	"limits":{"in_flight":2,"in_flight_per_scope":2,"in_flight_per_principal":2}}},"default":"p"}`

// A call at one proxy, and its repeats at another, over one etcd: held until it answers, and then as with the ledger at hand.
func TestTwoProxiesOverEtcd(t *testing.T) {
	r := &remote{t: t, cluster: etcdsim.New()}
	w1, one := r.proxy(overEtcd)
	w2, two := r.proxy(overEtcd)
	call := toolCall("1", `{"idempotency_key":"k","n":1}`)
	first := w1.send(one, call)
	if first.sent || first.status != 0 {
		t.Fatal("the call does not wait for etcd")
	}
	r.all()
	if !first.resumed || strings.Contains(string(first.body), "idempotency_key") {
		t.Fatalf("resumed %v, with the body %s", first.resumed, first.body)
	}
	again := w2.send(two, call)
	r.all()
	again.wantRefused(409, "idempotency_in_flight")
	again.stream.Done()
	other := w2.send(two, toolCall("1", `{"idempotency_key":"k","n":2}`))
	r.all()
	other.wantRefused(409, "idempotency_key_conflict")
	other.stream.Done()
	first.sent = true
	first.answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"n":7}}`)
	r.all()
	replay := w2.send(two, toolCall("9", `{"idempotency_key":"k","n":1}`))
	r.all()
	if replay.status != 200 || !strings.Contains(replay.reply, `"n":7`) || !strings.Contains(replay.reply, `"id":9`) || replay.headers["idempotency-replayed"] != "true" {
		t.Errorf("got %d %s", replay.status, replay.reply)
	}
	replay.stream.Done()
	one.Tick(w1.now)
	if n := w1.count("callonce_settled_total", "completed"); n != 1 {
		t.Errorf("settled %d times: %v", n, w1.counts)
	}
	if up := w1.gauges["namespace=.=ns;.;callonce_store_up"]; up != 1 {
		t.Errorf("gauges: %v", w1.gauges)
	}
	if len(one.open)+len(one.waiting)+len(two.open)+len(two.waiting) != 0 {
		t.Error("streams are left over")
	}
	for key := range r.cluster.Keys {
		if !strings.HasPrefix(key, "/once/ns/") {
			t.Errorf("the key %s is outside of the prefix and the namespace", key)
		}
	}
}

// Limits count per proxy: at its own a third call in flight is refused, at another it is not; and what leaves or is refused counts no more.
func TestLimitsPerProxyOverEtcd(t *testing.T) {
	r := &remote{t: t, cluster: etcdsim.New()}
	w1, one := r.proxy(overEtcd)
	w2, two := r.proxy(overEtcd)
	at := func(w *world, g *Guard, key string) *exchange {
		x := w.send(g, toolCall("1", `{"idempotency_key":"`+key+`"}`))
		r.all()
		return x
	}
	at(w1, one, "a")
	b := at(w1, one, "b")
	c := at(w1, one, "c")
	c.wantRefused(429, "idempotency_capacity")
	c.stream.Done()
	at(w1, one, "a").wantRefused(409, "idempotency_in_flight") // though it is full
	if x := at(w2, two, "c"); !x.resumed {
		t.Errorf("at another proxy: status %d", x.status)
	}
	b.sent = true
	b.answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`)
	r.all()
	gone := w1.send(one, toolCall("1", `{"idempotency_key":"d"}`))
	gone.stream.Done() // before etcd has answered
	r.all()
	one.Tick(w1.now)
	r.all()
	if x := at(w1, one, "d"); !x.resumed {
		t.Errorf("after one that left: status %d %s", x.status, x.reply)
	}
}

// A stream that the proxy does not let us enter any more is not sent on: its key is free.
func TestClaimForAStreamOutOfReach(t *testing.T) {
	r := &remote{t: t, cluster: etcdsim.New()}
	w, g := r.proxy(overEtcd)
	lost := w.send(g, toolCall("1", `{"idempotency_key":"k"}`))
	lost.unreachable = true
	r.all()
	if lost.resumed {
		t.Error("it goes on")
	}
	lost.stream.Done()
	r.all()
	x := w.send(g, toolCall("2", `{"idempotency_key":"k"}`))
	r.all()
	if !x.resumed {
		t.Errorf("its repeat: status %d %s", x.status, x.reply)
	}
}

// What settles a later leg settles its root in etcd too, at whatever moment its stream ends:
// another proxy finds the first round's answer under the key.
func TestRootOfLegsOverEtcd(t *testing.T) {
	leg := func(state string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"idempotency_key":"k"}` + state + `}}`
	}
	const (
		question = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s1"}}`
		last     = `,"inputResponses":{"a":1},"requestState":"s1"`
		result   = `{"jsonrpc":"2.0","id":1,"result":{"n":7}}`
	)
	passed := func(x *exchange, body string) {
		x.begin(200, "application/json")
		x.chunks(body, 7)
	}
	for name, c := range map[string]struct {
		end  func(r *remote, x *exchange)
		want string // of the first leg again, at another proxy
		how  string // of the one call that is counted as settled
	}{
		"the stream ends at once": {func(_ *remote, x *exchange) { x.answer(200, "application/json", result) }, "replay", "completed"},
		"the stream ends later": {func(r *remote, x *exchange) {
			passed(x, result)
			r.all()
			x.stream.Done()
		}, "replay", "completed"},
		"worse, before etcd answers": {func(_ *remote, x *exchange) {
			passed(x, result)
			x.chunks("{}", 2)
			x.stream.ResponseBody(0, true)
			x.stream.Done()
		}, "idempotency_response_not_replayable", ""},
		"worse, after it": {func(r *remote, x *exchange) {
			passed(x, result)
			r.all()
			x.chunks("{}", 2)
			x.stream.ResponseBody(0, true)
			x.stream.Done()
		}, "idempotency_response_not_replayable", ""},
		"lost":    {func(_ *remote, x *exchange) { x.stream.Done() }, "idempotency_outcome_unknown", "outcome_unknown"},
		"asks on": {func(_ *remote, x *exchange) { x.answer(200, "application/json", question) }, "sent", "released"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &remote{t: t, cluster: etcdsim.New()}
			w1, one := r.proxy(overEtcd)
			w2, two := r.proxy(overEtcd)
			first := w1.send(one, leg(""))
			r.all()
			first.sent = true
			first.answer(200, "application/json", question)
			r.all()
			settled := w1.count("callonce_settled_total", "how=.="+c.how)
			x := w1.send(one, leg(last))
			r.all()
			x.sent = true
			c.end(r, x)
			r.all()
			if c.how != "" {
				if n := w1.count("callonce_settled_total", "how=.="+c.how) - settled; n != 1 {
					t.Errorf("one leg counts as %d settlements", n)
				}
			}
			w1.now += 2e9
			one.Tick(w1.now)
			r.all()
			if n := len(one.roots); n != 0 || one.rootBytes != 0 {
				t.Errorf("%d roots and %d bytes are kept", n, one.rootBytes)
			}
			again := w2.send(two, leg(""))
			r.all()
			switch c.want {
			case "sent":
				if !again.resumed {
					t.Errorf("refused: %d %s", again.status, again.reply)
				}
			case "replay":
				if again.resumed || again.headers["idempotency-replayed"] != "true" || !strings.Contains(again.reply, `"n":7`) {
					t.Errorf("resumed %v, %d %s", again.resumed, again.status, again.reply)
				}
			default:
				if again.resumed || !strings.Contains(again.reply, c.want) {
					t.Errorf("resumed %v, %d %s", again.resumed, again.status, again.reply)
				}
			}
		})
	}
}

// While etcd does not answer, the answers that roots wait with have a bound: beyond it a
// root says that its answer was not kept.
func TestRootsKeepLittle(t *testing.T) {
	r := &remote{t: t, cluster: etcdsim.New()}
	w, g := r.proxy(overEtcd)
	g.rootBytes = mostRootBytes
	leg := func(state string) *exchange {
		x := w.send(g, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"idempotency_key":"k"}`+state+`}}`)
		r.all()
		x.sent = x.resumed
		return x
	}
	leg(`,"inputResponses":{"a":1},"requestState":"s1"`).answer(200, "application/json", okResult)
	r.all()
	if g.rootBytes != mostRootBytes {
		t.Errorf("%d bytes are counted, of which %d are none", g.rootBytes, mostRootBytes)
	}
	leg("").wantRefused(409, "idempotency_response_not_replayable")
}
