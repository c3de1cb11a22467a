package guard

import "testing"

// All key sources that carry a key must carry the same one, in whatever spelling; one
// header must not carry two.
func TestKeysAgree(t *testing.T) {
	const both = "x-idempotency-key"
	for name, c := range map[string]struct {
		body    string
		headers []string
		valid   bool
	}{
		"two headers":                   {toolCall("1", `{}`), []string{"idempotency-key", "k", both, "k"}, true},
		"two headers, one in quotes":    {toolCall("1", `{}`), []string{"idempotency-key", "k", both, `"k"`}, true},
		"two headers that differ":       {toolCall("1", `{}`), []string{"idempotency-key", "k", both, "l"}, false},
		"two headers, one cut short":    {toolCall("1", `{}`), []string{"idempotency-key", "kk", both, "k"}, false},
		"header and body":               {toolCall("1", `{"idempotency_key":"k"}`), []string{"idempotency-key", "k"}, true},
		"header and body that differ":   {toolCall("1", `{"idempotency_key":"l"}`), []string{"idempotency-key", "k"}, false},
		"the second header differs":     {toolCall("1", `{"idempotency_key":"k"}`), []string{"idempotency-key", "k", both, "l"}, false},
		"one header twice":              {toolCall("1", `{}`), []string{"idempotency-key", "k", "idempotency-key", "l"}, false},
		"one header twice with one key": {toolCall("1", `{}`), []string{"idempotency-key", "k", "idempotency-key", "k"}, false},
		"a header beside null":          {toolCall("1", `{"idempotency_key":null}`), []string{"idempotency-key", "k"}, true},
		"a header that is no key":       {toolCall("1", `{"idempotency_key":"k"}`), []string{"idempotency-key", "a b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			x := w.send(w.worker(plain), c.body, c.headers...)
			if !c.valid {
				x.wantRefused(400, "idempotency_key_invalid")
				return
			}
			x.wantSent()
			if x.state[stateOutcome] != outFirst {
				t.Errorf("not guarded: %v", x.state)
			}
		})
	}
}

// A derived key is the same for each attempt, whose id is another each time, also where a
// key that is sent binds the id.
func TestDerivedKeyDoesNotBindTheID(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"reply":"http","server":"srv","anonymous":true,"bind_request_id":true,"tools":[{"match":"charge","guard":"derived"}]}},"default":"p"}`)
	w.send(g, toolCall("1", `{}`)).answer(200, "application/json", okResult)
	w.send(g, toolCall("2", `{}`)).wantReplayed(`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
	w.send(g, toolCall("3", `{}`), "idempotency-key", "k").answer(404, "text/plain", "no")
	w.send(g, toolCall("3", `{}`), "idempotency-key", "k").answer(200, "application/json", `{"jsonrpc":"2.0","id":3,"result":{}}`)
	w.send(g, toolCall("4", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_key_conflict")
}
