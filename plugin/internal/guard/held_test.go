package guard

import (
	"fmt"
	"strings"
	"testing"
)

// A proxy that cannot buffer headers is found out by the first request, and served.
func TestHeadersNotBuffered(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	stuck := w.open(g, "idempotency-key", "k")
	stuck.body = []byte(toolCall("1", `{}`))
	stuck.size = 200
	if stuck.stream.RequestHeaders(false) != Pause || stuck.woken != 1 {
		t.Fatal("the first request is not held, or nobody looks after it")
	}
	g.Look()
	if stuck.resumed {
		t.Fatal("resumed before anything had arrived")
	}
	stuck.size = 300
	g.Tick(w.now)
	if !stuck.resumed || len(w.logs) != 1 || !strings.Contains(w.logs[0], "allow_on_headers_stop_iteration") {
		t.Fatalf("still stuck, or silent: resumed %v, %q", stuck.resumed, w.logs)
	}
	if fmt.Sprint(stuck.header("x-envoy-max-retries")) != "[0]" || len(stuck.header("accept-encoding")) > 0 {
		t.Fatalf("the edits were not made while they could be: %v", stuck.request)
	}
	stuck.sent = stuck.stream.RequestBody(len(stuck.body), true) == Continue
	stuck.wantSent()
	next := w.open(g, "idempotency-key", "k")
	next.body = stuck.body
	if next.stream.RequestHeaders(false) != Continue || next.woken != 0 {
		t.Fatal("what was learned is forgotten")
	}
	next.sent = next.stream.RequestBody(len(next.body), true) == Continue
	next.wantRefused(409, "idempotency_in_flight")
	if n := w.count("callonce_headers_not_held_total"); n != 2 {
		t.Errorf("counted %d requests whose headers were not held, expected 2", n)
	}
	stuck.answer(200, "application/json", okResult)
	early := w.open(g, "idempotency-key", "k2")
	early.body = stuck.body
	early.stream.RequestHeaders(false)
	early.begin(400, "text/plain") // a server that answers on the headers alone
	if early.stream.RequestBody(len(early.body), true) == Continue {
		t.Error("the body of a call that nobody judged went on")
	}
}

func TestHeadersBuffered(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantSent()
	x := w.open(g, "idempotency-key", "k")
	if x.stream.RequestHeaders(false) != Pause || x.woken != 0 || len(g.probing) != 0 {
		t.Error("what was learned is forgotten")
	}
	x.size = 1000
	g.Look()
	if x.resumed {
		t.Error("a buffered request was let go before its body came")
	}
}

// A body that trailers end is judged there.
func TestTrailers(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	for _, want := range []bool{true, false} {
		x := w.open(g, "idempotency-key", "k")
		x.body = []byte(toolCall("1", `{}`))
		x.stream.RequestHeaders(false)
		x.stream.RequestBody(len(x.body), false)
		if got := x.stream.RequestTrailers(len(x.body)) == Continue; got != want {
			t.Errorf("sent: expected %v, found %v: %s", want, got, x.reply)
		}
	}
}
