package guard

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// The gauge of the youngest entry that was evicted only falls.
func TestYoungestEvicted(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	const name = "namespace=.=ns;.;server=.=srv;.;callonce_youngest_evicted_seconds"
	for _, c := range []struct {
		age  time.Duration
		want uint64
	}{{90 * time.Second, 90}, {120 * time.Second, 90}, {90 * time.Second, 90}, {30*time.Second + 999*time.Millisecond, 30}, {31 * time.Second, 30}, {time.Millisecond, 1}, {0, 1}, {time.Hour, 1}} {
		g.evicted(numberOf("p"), c.age)
		if got := w.gauges[name]; got != c.want {
			t.Errorf("one of %v was evicted: the youngest is %d, want %d", c.age, got, c.want)
		}
	}
}

// Label values of a configuration cannot end a label, or begin another, for the
// expressions with which Envoy takes names apart (envoy/envoy.yaml).
func TestLabelsStayApart(t *testing.T) {
	tag := func(label, name string) string {
		m := regexp.MustCompile(`(` + label + `=\.=(.*?);\.;)`).FindStringSubmatch(name)
		if m == nil {
			return "(none)"
		}
		return m[2]
	}
	for _, c := range []struct{ server, want string }{
		{"payments", "payments"},
		{"a;.;b", "a%3B.%3Bb"},
		{"a;.;outcome=.=replay", "a%3B.%3Boutcome%3D.%3Dreplay"},
		{"outcome=.=replay", "outcome%3D.%3Dreplay"},
		{"a;.;.;b", "a%3B.%3B.%3Bb"},
		{"a;.", "a%3B."},
		{";.", "%3B."},
		{"a;", "a%3B"},
		{";.;;.;", "%3B.%3B%3B.%3B"},
	} {
		for _, namespace := range []string{"ns", "n;.;s"} {
			counts := newCounts(namespace, newWorld(t))
			name := counts.fullName(keyOf(c.server, decisions, []string{"first"}))
			if got := tag("server", name); got != c.want {
				t.Errorf("%s: server %q, want %q", name, got, c.want)
			}
			if got := tag("outcome", name); got != "first" {
				t.Errorf("%s: outcome %q", name, got)
			}
			if got, want := tag("namespace", name), labelEscapes.Replace(namespace); got != want {
				t.Errorf("%s: namespace %q, want %q", name, got, want)
			}
		}
	}
}

// Issue 10, point 21: a call's end is counted once, as what became of it.
func TestSettlementIsCountedOnce(t *testing.T) {
	const slow = 20 * time.Second // beyond the lease
	all := func(w *world) string {
		var out []string
		for _, how := range []string{"completed", "released", "outcome_unknown", "not_replayable", "fenced", "orphaned"} {
			if n := w.count("callonce_settled_total", "how=.="+how+";"); n > 0 {
				out = append(out, fmt.Sprint(how, " ", n))
			}
		}
		return strings.Join(out, ", ")
	}
	// lost lets another worker find that the holder is gone.
	lost := func(w *world, other *Guard) {
		w.pass(slow)
		w.send(other, toolCall("2", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_outcome_unknown")
	}
	for _, c := range []struct {
		name string
		play func(w *world, g, other *Guard, x *exchange)
		want string
	}{
		{"at once", func(w *world, g, other *Guard, x *exchange) {
			x.answer(200, "application/json", okResult)
		}, "completed 1"},
		{"at a later tick", func(w *world, g, other *Guard, x *exchange) {
			w.memory.broken = true
			x.answer(503, "text/plain", "no")
			g.Tick(w.now)
			w.memory.broken = false
			g.Tick(w.now)
			g.Tick(w.now)
		}, "outcome_unknown 1"},
		{"released at a later tick", func(w *world, g, other *Guard, x *exchange) {
			w.memory.broken = true
			x.answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`)
			w.memory.broken = false
			g.Tick(w.now)
		}, "released 1"},
		{"too late", func(w *world, g, other *Guard, x *exchange) {
			lost(w, other)
			x.answer(200, "application/json", okResult)
		}, "fenced 1, orphaned 1"},
		{"too late at a later tick", func(w *world, g, other *Guard, x *exchange) {
			w.memory.broken = true
			x.answer(503, "text/plain", "no")
			w.memory.broken = false
			lost(w, other)
			g.Tick(w.now)
			g.Tick(w.now)
		}, "fenced 1, orphaned 1"},
		{"too late, twice", func(w *world, g, other *Guard, x *exchange) {
			lost(w, other)
			x.begin(200, "application/json")
			x.chunks(okResult+"and more", 7)
			x.stream.Done()
		}, "fenced 1, orphaned 1"},
		{"too late, and cut", func(w *world, g, other *Guard, x *exchange) {
			lost(w, other)
			x.begin(200, "text/plain")
			x.stream.Done()
		}, "fenced 1, orphaned 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			g, other := w.worker(plain), w.worker(plain)
			x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
			x.wantSent()
			c.play(w, g, other, x)
			if got := all(w); got != c.want {
				t.Errorf("counted %s; want %s", got, c.want)
			}
		})
	}
}

// Issue 10, point 20: a tick asks for each open call whether its stream is open, and looks
// at each but once or twice.
func TestTickIsLinearInOpenStreams(t *testing.T) {
	const calls = 16000
	w := newWorld(t)
	g := w.worker(strings.Replace(plain, `"reply_bytes":2000`,
		`"entries":65536,"entries_per_principal":65536,"entries_per_scope":65536,"in_flight":16000,"in_flight_per_principal":16000,"in_flight_per_scope":16000,"tombstones_per_scope":16000`, 1))
	store := &livenessStore{live: g.isOpen}
	g.store = store
	var last *exchange
	for i := range calls {
		x := w.send(g, toolCall("1", `{}`), "idempotency-key", fmt.Sprint("k", i))
		store.tokens = append(store.tokens, x.stream.token)
		last = x
	}
	g.looked = 0
	g.Tick(w.now)
	if g.looked > 2*calls || store.open != calls {
		t.Errorf("a tick with %d open calls, %d seen open, looks at %d", calls, store.open, g.looked)
	}
	last.stream.Done()
	g.Tick(w.now)
	if store.open != calls-1 || g.live != nil {
		t.Errorf("after one has ended %d are open", store.open)
	}
}

// livenessStore claims all and asks at each tick which streams are open.
type livenessStore struct {
	tokens []ledger.Token
	open   int
	live   func(ledger.Token) bool
}

func (s *livenessStore) Ask(ledger.Token, ledger.Claim) (ledger.Answer, bool) {
	return ledger.Answer{Verdict: ledger.First}, true
}

func (s *livenessStore) Settle(ledger.Lease, ledger.Outcome) ledger.Settled { return ledger.Applied }
func (s *livenessStore) Forget(ledger.Token)                                {}

func (s *livenessStore) Tick(ledger.Mono) {
	s.open = 0
	for _, t := range s.tokens {
		if s.live(t) {
			s.open++
		}
	}
}

// Issue 10, point 11: one caller whose calls end in unknown outcomes fills its scope, and
// is told when there is room.
func TestRetryAfterOfCapacity(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"reply":"http","server":"srv","anonymous":true,"limits":{"tombstones_per_scope":3}}},"default":"p"}`)
	w.pass(time.Hour)
	for i := range 3 {
		x := w.send(g, toolCall("1", `{}`), "idempotency-key", fmt.Sprint("k", i))
		x.wantSent()
		x.answer(503, "text/plain", "no")
	}
	tick := func(d time.Duration) {
		for ; d > 0; d -= time.Second {
			w.pass(time.Second)
			g.Tick(w.now)
		}
	}
	after := func() (n int) {
		x := w.send(g, toolCall("1", `{}`), "idempotency-key", "another")
		x.wantRefused(429, "idempotency_capacity")
		if _, err := fmt.Sscan(x.headers["retry-after"], &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	said := after()
	if said < 300 || said > 320 {
		t.Fatalf("at once: come again in %d s, the tombstones last 300", said)
	}
	tick(100 * time.Second)
	if again := after(); again < 200 || again > said-100 {
		t.Errorf("after 100 s: come again in %d s", again)
	}
	tick(199 * time.Second)
	if again := after(); again < 1 || again > 20 {
		t.Errorf("after 299 s: come again in %d s", again)
	}
	tick(time.Duration(said-299) * time.Second)
	room := w.send(g, toolCall("1", `{}`), "idempotency-key", "another")
	room.wantSent()
	room.answer(404, "text/plain", "no")
	g.Tick(w.now) // returns its cached quota
	// In flight is over soon.
	x := w.worker(`{"policies":{"p":{"reply":"http","server":"srv","anonymous":true,"limits":{"in_flight_per_scope":1}}},"default":"p"}`)
	w.send(x, toolCall("1", `{"b":1}`), "idempotency-key", "b").wantSent()
	if full := w.send(x, toolCall("1", `{"b":1}`), "idempotency-key", "c"); full.headers["retry-after"] != "1" {
		t.Errorf("in flight: come again in %s s", full.headers["retry-after"])
	}
}
