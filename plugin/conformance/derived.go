package conformance

import (
	"net/http"
	"strings"
	"testing"
)

// failedAndRunning are the two halves of preset derived that an agent without keys meets
// when it repeats a call: the first attempt failed, or it still runs.
func failedAndRunning(t *testing.T, f Front) {
	const config = `{"namespace":"cases","policies":{"p":{"preset":"derived","server":"s","anonymous":true,
		"tools":[{"match":"get_*","guard":"off"},{"match":"slow","status_tool":"get_charge","status_argument":"order_id"},{"match":"*"}]}},"default":"p"}`
	works := newGate()
	c, u, _ := serveWith(t, f, config, func(w http.ResponseWriter, s seen) {
		switch {
		case s.Tool == "fails" && s.Run == 1:
			writeJSON(w, answerTo(s, `"error":{"code":-32603,"message":"the database was away"}`))
		case s.Tool == "fails" && s.Run == 2:
			event(w, answerTo(s, `"error":{"code":-32000,"message":"still"}`))
		case s.Tool == "fails" && s.Run == 3:
			writeJSON(w, answerTo(s, `"result":{"isError":true,"content":[]}`))
		case s.Tool == "slow" && !works.wait(s):
		default:
			asJSON(w, s)
		}
	})
	call := func(id, tool, args string) reply { return c.call(id, tool, args, "") }
	for range 4 { // three attempts fail, and the fourth is made
		if r := call("1", "fails", `{"a":1}`); r.Err != nil || r.Status != 200 || r.Header.Get("Idempotency-Replayed") != "" {
			t.Fatalf("an attempt after a failed one: %d %v %s", r.Status, r.Err, r.Body)
		}
	}
	wantReplay(t, call("2", "fails", `{"a":1}`))
	wantRuns(t, u, 4)

	const args = `{"order_id":"o-secret-17"}`
	first := c.begin(toolCall("3", "slow", args))
	u.await(t, 5)
	for range 2 {
		r := call("4", "slow", args)
		if !strings.Contains(r.Body, "Do not retry; call get_charge with the same order_id to see its state.") || !strings.Contains(r.Body, `"retry":"reconcile_first"`) ||
			!strings.Contains(r.Body, `"isError":true`) || strings.Contains(r.Body, "secret") || r.Header.Get("Retry-After") != "" {
			t.Errorf("a repeat of a call that runs: %v %s", r.Header, r.Body)
		}
	}
	works.open()
	wantFirst(t, first.wait(t))
	wantReplay(t, call("5", "slow", args))
	wantRuns(t, u, 5)
}
