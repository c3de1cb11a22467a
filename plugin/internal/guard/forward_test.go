package guard

import "testing"

// A claimed call whose headers the proxy does not change does not go on, since the mesh could
// repeat it; its key is free again, since it has not run.
func TestCallThatCannotBeEdited(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	x := w.open(g, "idempotency-key", "k")
	x.fixed = true
	x.arrive(toolCall("1", `{}`))
	x.wantRefused(503, "idempotency_unavailable")
	x.stream.Done()
	if n := w.count("callonce_settled_total", "how=.=released;"); n != 1 {
		t.Errorf("released %d times", n)
	}
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantSent()
}

// Of a guarded call's headers only what is not so yet is changed; and what is there twice is not so.
func TestEditsThatChangeNothing(t *testing.T) {
	for _, c := range []struct {
		headers []string
		edits   int
	}{
		{[]string{"accept-encoding", "(none)", "x-envoy-max-retries", "0"}, 0},
		{[]string{"accept-encoding", "(none)"}, 1},
		{[]string{"x-envoy-max-retries", "0"}, 1},
		{[]string{"accept-encoding", "(none)", "x-envoy-max-retries", "2"}, 1},
		{[]string{"accept-encoding", "(none)", "x-envoy-max-retries", "2", "x-envoy-max-retries", "0"}, 1},
		{[]string{"accept-encoding", ""}, 2},
	} {
		w := newWorld(t)
		x := w.send(w.worker(plain), toolCall("1", `{}`), append(c.headers, "idempotency-key", "k")...)
		x.wantSent()
		if x.edits != c.edits || x.header("accept-encoding") != nil || len(x.header("x-envoy-max-retries")) != 1 || x.header("x-envoy-max-retries")[0] != "0" {
			t.Errorf("%q: %d edits, expected %d; sent with %q", c.headers, x.edits, c.edits, x.request)
		}
	}
}
