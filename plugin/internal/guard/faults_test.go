package guard

import (
	"fmt"
	"strings"
	"testing"
)

func TestBrokenStore(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	w.memory.broken = true
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantRefused(503, "idempotency_unavailable")
	w.send(g, toolCall("1", `{}`)).wantSent()
	w.memory.broken = false
	x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	w.memory.broken = true
	x.answer(200, "application/json", okResult)
	w.memory.broken = false
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_in_flight")
	g.Tick(w.now)
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_response_not_replayable")
}

// A fault of our own stays with the call that hit it.
func TestFaults(t *testing.T) {
	for _, method := range []string{"RequestHeaders", "RequestBody", "SetState", "SetRequestHeader"} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t)
			g := w.worker(plain)
			x := w.open(g, "idempotency-key", "k")
			x.panicsIn = method
			x.arrive(toolCall("1", `{}`))
			if method == "RequestHeaders" {
				x.wantSent() // nothing known of it yet, and the policy need not guard
				return
			}
			x.wantRefused(503, "idempotency_unavailable")
			y := w.send(g, toolCall("2", `{}`), "idempotency-key", "k")
			if method == "SetRequestHeader" {
				y.wantRefused(409, "idempotency_outcome_unknown") // it had been claimed
			} else {
				y.wantSent()
			}
		})
	}
	t.Run("unread under a policy that must guard", func(t *testing.T) {
		w := newWorld(t)
		x := w.open(w.worker(must))
		x.panicsIn = "RequestHeaders"
		x.arrive(toolCall("1", `{}`))
		x.wantRefused(503, "idempotency_unavailable")
	})
	for _, method := range []string{"ResponseHeaders", "ResponseBody"} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t)
			g := w.worker(plain)
			x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
			x.panicsIn = method
			x.answer(200, "application/json", okResult)
			if want := map[string]int{"ResponseHeaders": 503}[method]; x.status != want {
				t.Errorf("a refusal in the answer's place: expected status %d, found %d %s", want, x.status, x.reply)
			}
			w.send(g, toolCall("2", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_outcome_unknown")
			if len(w.logs) != 1 || !strings.Contains(w.logs[0], "index out of range") {
				t.Errorf("the log: %q", w.logs)
			}
		})
	}
}

// No byte of a key, an argument or an identity reaches a log, a counter, the filter
// state, an error or the store.
func TestNothingLeaks(t *testing.T) {
	const key, arg, user, token = "SECRETKEY", "SECRETARG", "SECRETUSER", "SECRETTOKEN"
	w := newWorld(t)
	g := w.worker(`{"namespace":"n","policies":{"p":{"reply":"http","server":"s","principal":["header:x-user"],"anonymous":true}},"default":"p"}`)
	var all []*exchange
	send := func(body string, h ...string) *exchange {
		x := w.send(g, body, append(h, "authorization", token)...)
		all = append(all, x)
		return x
	}
	send(toolCall("1", `{"a":"`+arg+`"}`), "idempotency-key", key, "x-user", user).answer(200, "application/json", okResult)
	send(toolCall("2", `{"a":"`+arg+`"}`), "idempotency-key", key, "x-user", user)
	send(toolCall("3", `{"b":"`+arg+`"}`), "idempotency-key", key, "x-user", user)
	send(toolCall("3", `{"b":"`+arg+`"}`), "idempotency-key", key+" "+key, "x-user", user)
	send(toolCall("3", `{"b":"`+arg+`","b":1}`), "idempotency-key", key)
	send(toolCall("3", `{"b":"`+arg+`"}`), "idempotency-key", key)
	x := w.open(g, "idempotency-key", key)
	x.panicsIn = "RequestBody"
	x.arrive(toolCall("4", `{"a":"`+arg+`"}`))
	text := strings.Join(w.logs, "\n")
	for name := range w.counts {
		text += name
	}
	for k, c := range w.memory.values {
		text += k + string(c.value)
	}
	for _, x := range append(all, x) {
		text += x.reply + fmt.Sprint(x.state, x.headers)
	}
	for _, secret := range []string{key, arg, user, token} {
		if strings.Contains(text, secret) {
			t.Errorf("%s leaked", secret)
		}
	}
}
