package guard

import (
	"strings"
	"testing"
)

// A request without a body gives no sign whether its headers are buffered. It is let go
// after a while, alone: nothing was learned from it.
func TestNoBodyNoSign(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		gone    bool
	}{
		"length unknown": {nil, true},
		"length 0":       {[]string{"content-length", "0"}, true},
		"a body to come": {[]string{"content-length", "10"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			g := w.worker(plain)
			x := w.open(g, append(c.headers, "idempotency-key", "k")...)
			x.size = 200
			if x.stream.RequestHeaders(false) != Pause {
				t.Fatal("the headers were not held")
			}
			g.Look()
			g.Tick(w.now)
			if x.resumed {
				t.Fatal("let go before a sign could come")
			}
			g.Tick(w.now)
			if x.resumed != c.gone || g.buffering != unknownYet {
				t.Fatalf("let go: %v, expected %v; learned %v", x.resumed, c.gone, g.buffering)
			}
			// A body that comes all the same is judged.
			x.body = []byte(toolCall("1", `{}`))
			x.sent = x.stream.RequestBody(len(x.body), true) == Continue
			x.wantSent()
			w.send(g, toolCall("2", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_in_flight")
		})
	}
}

// A call whose headers went on for want of a sign is refused where its key must go on
// in one: now, not for good.
func TestForwardWithoutASign(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("forward", ""))
	x := w.open(g, user, "ada")
	x.stream.RequestHeaders(false)
	g.Tick(w.now)
	g.Tick(w.now)
	x.body = []byte(toolCall("1", `{"idempotency_key":"k"}`))
	x.sent = x.stream.RequestBody(len(x.body), true) == Continue
	x.wantRefused(200, "idempotency_unavailable")
	if want := `"retry":"same_key_later"`; !strings.Contains(x.reply, want) {
		t.Errorf("expected %s in %s", want, x.reply)
	}
	w.send(g, toolCall("1", `{"idempotency_key":"k"}`), user, "ada").wantSent()
}

// A request that was found stuck, and that trailers end, goes on outside of its own
// callbacks: inside them Envoy lost its body.
func TestStuckWithTrailers(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	x := w.open(g, "idempotency-key", "k")
	x.stream.RequestHeaders(false)
	x.body = []byte(toolCall("1", `{}`))
	x.size = 100
	g.Look()
	if !x.resumed || g.buffering != notBuffered {
		t.Fatal("not found stuck")
	}
	x.resumed, x.woken = false, 0
	if x.stream.RequestBody(len(x.body), false) != Pause || x.stream.RequestTrailers(len(x.body)) != Pause || x.woken != 1 {
		t.Fatalf("it went on inside of its callback, or nobody looks after it (woken %d)", x.woken)
	}
	g.Look()
	if !x.resumed || len(g.late) > 0 || x.state["callonce.outcome"] != "first" {
		t.Errorf("resumed %v, %v", x.resumed, x.state)
	}
	gone := w.open(g, "idempotency-key", "k2")
	gone.body = x.body
	gone.stream.RequestHeaders(false)
	gone.stream.wait.state = stuck
	gone.stream.RequestTrailers(len(gone.body))
	gone.stream.Done()
	if len(g.late) > 0 {
		t.Error("a stream that ended is still to be resumed")
	}
}

// Each callback takes a request that waits where this table says, whatever state it is in.
func TestWaiting(t *testing.T) {
	body := toolCall("1", `{}`)
	begin := func(g *Guard, x *exchange) { x.body, x.size = []byte(body), 10; x.stream.RequestHeaders(false) }
	arrive := func(g *Guard, x *exchange) { x.size += 100; g.Look() }
	end := func(g *Guard, x *exchange) { x.stream.RequestTrailers(len(body)) }
	reach := [waitStates][]func(*Guard, *exchange){
		notWaiting: {},
		probing:    {begin},
		ahead:      {func(g *Guard, _ *exchange) { g.buffering = notBuffered }, begin},
		stuck:      {begin, arrive},
		late:       {begin, arrive, end},
	}
	const none = waitStates // does not happen
	callbacks := []struct {
		name string
		call func(*Guard, *exchange)
		next [waitStates]waitState
	}{
		{"headers", begin, [...]waitState{probing, none, none, none, none}},
		{"a part of the body", func(_ *Guard, x *exchange) { x.stream.RequestBody(5, false) }, [...]waitState{notWaiting, notWaiting, ahead, stuck, none}},
		{"the body", func(_ *Guard, x *exchange) { x.stream.RequestBody(len(body), true) }, [...]waitState{notWaiting, notWaiting, ahead, stuck, none}},
		{"trailers", end, [...]waitState{notWaiting, notWaiting, ahead, late, none}},
		{"more arrives", arrive, [...]waitState{notWaiting, stuck, ahead, stuck, notWaiting}},
		{"a tick", func(g *Guard, _ *exchange) { g.Tick(0) }, [...]waitState{notWaiting, probing, ahead, stuck, notWaiting}},
		{"ticks", func(g *Guard, _ *exchange) { g.Tick(0); g.Tick(0) }, [...]waitState{notWaiting, stuck, ahead, stuck, notWaiting}},
		{"another's body", func(g *Guard, x *exchange) { x.w.send(g, body, "idempotency-key", "other").stream.Done() }, [...]waitState{notWaiting, notWaiting, ahead, stuck, late}},
		{"out of reach", func(g *Guard, x *exchange) { x.unreachable = true; g.Tick(0) }, [...]waitState{notWaiting, notWaiting, ahead, stuck, notWaiting}},
		{"the end", func(_ *Guard, x *exchange) { x.stream.Done() }, [waitStates]waitState{}},
	}
	for from := range waitStates {
		for _, c := range callbacks {
			if c.next[from] == none {
				continue
			}
			w := newWorld(t)
			g := w.worker(plain)
			x := w.open(g, "idempotency-key", "k")
			for _, step := range reach[from] {
				step(g, x)
			}
			if x.stream.wait.state != from {
				t.Fatalf("state %d was not reached, but %d", from, x.stream.wait.state)
			}
			resumed := x.resumed
			x.resumed = false
			c.call(g, x)
			got := x.stream.wait.state
			if got != c.next[from] {
				t.Errorf("state %d, %s: state %d, want %d", from, c.name, got, c.next[from])
			}
			if (len(g.probing) == 1) != (got == probing) || (len(g.late) == 1) != (got == late) {
				t.Errorf("state %d, %s: %d are looked at for a sign, %d to go on", from, c.name, len(g.probing), len(g.late))
			}
			letGo := from == probing && got == stuck || from == late && got == notWaiting && c.name != "the end" && !x.unreachable
			if x.resumed != letGo {
				t.Errorf("state %d, %s: resumed %v (before %v)", from, c.name, x.resumed, resumed)
			}
		}
	}
}

// Every event has its row in every state: what is over takes no further part.
func TestWaitTable(t *testing.T) {
	for from := range waitStates {
		for ev := range waitEvents {
			to := waits[from][ev]
			switch {
			case to == from:
			case ev == isOver && to == notWaiting:
			case from == notWaiting && (ev == probes && to == probing || ev == goesAhead && to == ahead):
			case from == probing && (ev == bodyComes && to == notWaiting || ev == foundStuck && to == stuck):
			case from == stuck && ev == endsLate && to == late:
			default:
				t.Errorf("state %d, event %d: state %d", from, ev, to)
			}
		}
		if waits[from][isOver] != notWaiting {
			t.Errorf("state %d does not end", from)
		}
	}
}

// entered counts how often the filter looks at streams outside of their callbacks.
type entered struct {
	*fakeHost
	n *int
}

func (h entered) Enter() error { *h.n++; return nil }

// While nothing tells whether this proxy buffers headers, each request that has only
// headers wakes the filter. Its work must not grow with the square of their number: all
// else that the worker has to do waits meanwhile.
func TestManyWithoutABody(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	const many = 2000
	looks := 0
	var open []*exchange
	for range many {
		x := w.open(g, "idempotency-key", "k", "content-length", "100")
		x.drive(g.NewStream(streams, entered{x.fakeHost, &looks}))
		if x.stream.RequestHeaders(false) != Pause {
			t.Fatal("headers were not held")
		}
		open = append(open, x)
		g.Look()
	}
	if looks > 100*many {
		t.Errorf("%d requests were looked at %d times", many, looks)
	}
	// A tick looks at all, and what one of them shows is true of all.
	last := open[many-1]
	last.size = 1
	g.Tick(w.now)
	for i, x := range open {
		if !x.resumed {
			t.Fatalf("request %d of %d still waits", i, many)
		}
	}
}

// Once a body has come, nothing is left to find out.
func TestNoLookOnceBuffered(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	looks := 0
	for range 100 {
		x := w.open(g, "idempotency-key", "k", "content-length", "100")
		x.drive(g.NewStream(streams, entered{x.fakeHost, &looks}))
		x.stream.RequestHeaders(false)
	}
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantSent()
	g.Tick(w.now)
	if looks > 0 {
		t.Errorf("%d looks at requests whose headers are known to be buffered", looks)
	}
}

// Where there is no memory for another request to wait, one that would have to is
// refused, and nothing else is.
func TestCrowded(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	try := func(body string, headers ...string) *exchange {
		x := w.open(g, headers...)
		x.crowded = true
		x.arrive(body)
		return x
	}
	for range 2 {
		try(toolCall("1", `{}`), "idempotency-key", "k").wantRefused(503, "idempotency_unavailable")
		try(toolCall("1", `{}`)).wantRefused(503, "idempotency_unavailable")
	}
	try("", ":method", "GET").wantSent()
	try("a=b", "content-type", "text/html").wantSent()
	try("a=b", "content-type", "text/plain").wantRefused(503, "idempotency_unavailable") // it would have to wait for its first byte
	if len(w.logs) != 1 {
		t.Errorf("said %d times that there was no memory: %q", len(w.logs), w.logs)
	}
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantSent()
}
