package guard

import (
	"strings"
	"testing"
)

// A task's handle goes only to those who declare tasks.
func TestTask(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	call := func(declares bool) *exchange {
		meta := `{}`
		if declares {
			meta = `{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		}
		return w.send(g, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","_meta":`+meta+`}}`, "idempotency-key", "k")
	}
	handle := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t"}}`
	call(true).answer(200, "application/json", handle)
	call(false).wantRefused(409, "idempotency_response_not_replayable")
	call(true).wantReplayed(handle)
}

// Each leg of a multi-round trip is a key of its own (case 42 and 52).
func TestLegs(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	leg := func(state string) *exchange {
		more := ""
		if state != "" {
			more = `,"inputResponses":{"a":1},"requestState":"` + state + `"`
		}
		return w.send(g, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge"`+more+`}}`, "idempotency-key", "k")
	}
	question := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s1"}}`
	leg("").answer(200, "application/json", question)
	leg("s1").answer(200, "application/json", okResult)
	leg("s1").wantReplayed(okResult)
	leg("").wantReplayed(okResult) // a late duplicate of the first leg, or a second round
	leg("s1").wantReplayed(okResult)
	other := w.send(g, toolCall("1", `{"other":1}`), "idempotency-key", "k")
	other.wantRefused(409, "idempotency_key_conflict")
	if n := w.count("callonce_settled_total", "how=.=completed"); n != 1 {
		t.Errorf("one call completed %d times", n)
	}
	leg("s2").wantSent()
}

// What becomes of a later leg becomes of its root: unknown, or an answer that is not kept,
// where it is; and nothing where the leg is released, or the root has no room.
func TestRootOfLegs(t *testing.T) {
	type story struct {
		config string
		end    func(x *exchange)
		want   string // of the first leg again: a refusal, "replay" or "sent"
	}
	answer := func(body string) func(x *exchange) {
		return func(x *exchange) { x.answer(200, "application/json", body) }
	}
	lost := func(x *exchange) { x.stream.Done() }
	const derived = `{"policies":{"p":{"server":"s","anonymous":true,"tools":[{"match":"*","guard":"derived"}]}},"default":"p"}`
	key := []string{"idempotency-key", "k"}
	for name, c := range map[string]story{
		"completed":     {plain, answer(okResult), "replay"},
		"an error":      {plain, answer(`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}}`), "replay"},
		"lost":          {plain, lost, "idempotency_outcome_unknown"},
		"too long":      {plain, answer(`{"jsonrpc":"2.0","id":1,"result":{"pad":"` + strings.Repeat("x", 3000) + `"}}`), "idempotency_response_not_replayable"},
		"trailed":       {plain, answer(okResult + strings.Repeat(" ", 20) + `{}`), "idempotency_response_not_replayable"},
		"asks on":       {plain, answer(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s2"}}`), "sent"},
		"did not run":   {plain, answer(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}`), "sent"},
		"a derived key": {derived, answer(okResult), "replay"},
		"no room":       {anyone(`,"limits":{"entries":1}`), answer(okResult), "idempotency_capacity"},
		"bound":         {anyone(`,"bind_request_id":true`), answer(okResult), "replay"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			g := w.worker(c.config)
			h := key
			if c.config == derived {
				h = nil
			}
			leg := func(state string) *exchange {
				return w.send(g, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"a":1}`+state+`}}`, h...)
			}
			leg("").answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s1"}}`)
			c.end(leg(`,"inputResponses":{"a":1},"requestState":"s1"`))
			again := leg("")
			switch c.want {
			case "sent":
				again.wantSent()
			case "replay":
				if again.sent || again.headers["idempotency-replayed"] != "true" {
					t.Fatalf("found sent %v, %d %s", again.sent, again.status, again.reply)
				}
			default:
				if again.sent || !strings.Contains(again.reply, c.want) {
					t.Fatalf("expected %s, found sent %v, %d %s", c.want, again.sent, again.status, again.reply)
				}
			}
		})
	}
}
