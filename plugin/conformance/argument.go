package conformance

import (
	"strings"
	"testing"
)

// keyInAnArgument is SEP-3182 for a client that can send nothing but arguments.
func keyInAnArgument(t *testing.T, f Front) {
	const config = `{"namespace":"cases","policies":{"p":{"preset":"sep3182","server":"s","anonymous":true}},"default":"p"}`
	c, u, _ := serveWith(t, f, config, asJSON)
	first := c.call("1", "charge", `{"cents":5,"idempotencyKey":"k"}`, "")
	wantFirst(t, first)
	wantReplay(t, c.call("2", "charge", `{"idempotencyKey":"k","cents":5.0}`, ""))
	// It is the same key in the place beside the arguments.
	beside := func(key, args string) string {
		return `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"charge","idempotencyKey":"` + key + `","arguments":` + args + `}}`
	}
	wantReplay(t, c.post(beside("k", `{"cents":5}`)))
	wantReplay(t, c.post(beside("k", `{"cents":5,"idempotencyKey":"k"}`)))
	wantRefusal(t, c.post(beside("k", `{"cents":5,"idempotencyKey":"other"}`)), 200, "idempotency_key_invalid")
	wantRefusal(t, c.call("4", "charge", `{"cents":6,"idempotencyKey":"k"}`, ""), 200, "idempotency_key_conflict")
	wantRuns(t, u, 1)
	// Without one a repeat runs again, and an empty one is none.
	wantFirst(t, c.call("5", "charge", `{"cents":5}`, ""))
	wantFirst(t, c.call("6", "charge", `{"cents":5,"idempotencyKey":""}`, ""))
	wantRuns(t, u, 3)
	for _, s := range u.Seen() {
		if strings.Contains(s.Args, "idempotencyKey") {
			t.Errorf("the server got the key: %s", s.Args)
		}
	}
}
