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
