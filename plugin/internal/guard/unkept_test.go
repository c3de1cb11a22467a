package guard

import (
	"strings"
	"testing"
)

// An answer that the store would not keep: what is published and counted is what the key became, whether the entry could be written
// at once or only at the next tick. Nothing that follows is taken for a lost lease.
func TestUnkept(t *testing.T) {
	for _, later := range []bool{false, true} {
		for _, after := range []string{"", " \n", "{}"} {
			w := newWorld(t)
			g := w.worker(plain)
			x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
			w.memory.full = func(key string) bool { return later || isReply(key) }
			x.begin(200, "application/json")
			x.chunks(okResult, 100)
			if after != "" {
				x.chunks(after, 100)
			}
			x.stream.ResponseBody(0, true)
			x.stream.Done()
			w.memory.full = nil
			g.Tick(w.now)
			w.send(g, toolCall("2", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_response_not_replayable")
			if how, why := x.state["callonce.settled"], x.state["callonce.settled_by"]; how != "not_replayable" || why != "result" {
				t.Errorf("later %v, %q behind it: published as %q by %q", later, after, how, why)
			}
			for how, want := range map[string]uint64{"not_replayable": 1, "completed": 0, "fenced": 0, "outcome_unknown": 0} {
				if got := w.count("callonce_settled_total", "how=.="+how); got != want {
					t.Errorf("later %v, %q behind it: %s: counted %d, expected %d", later, after, how, got, want)
				}
			}
		}
	}
}

// The root of a leg whose answer was not kept becomes what the leg became, although the store would keep its own by then.
func TestUnkeptRoot(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	leg := strings.Replace(toolCall("1", `{}`), `"params":{`, `"params":{"requestState":"s1",`, 1)
	x := w.send(g, leg, "idempotency-key", "k")
	refused := false
	w.memory.full = func(key string) bool {
		now := isReply(key) && !refused
		refused = refused || now
		return now
	}
	x.answer(200, "application/json", okResult)
	w.send(g, leg, "idempotency-key", "k").wantRefused(409, "idempotency_response_not_replayable")
	w.send(g, toolCall("2", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_response_not_replayable")
}

// isReply says which records of shared data hold a reply.
func isReply(key string) bool { return strings.Contains(key, "/r/") }
