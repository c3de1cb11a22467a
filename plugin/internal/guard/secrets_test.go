package guard

import (
	"fmt"
	"strings"
	"testing"
)

// Raw keys, arguments and identities are in nothing that operators or other callers
// see: no log line, metric, filter state or refusal, whatever is decided.
func TestNothingSecret(t *testing.T) {
	const key, argument, caller, session = "raw-key", "raw-argument", "raw-caller", "raw-session"
	w := newWorld(t)
	g := w.worker(`{"namespace":"ns","policies":{
		"p":{"server":"srv","principal":["header:x-user"],"log_unkeyed":true,"on_store_error":"forward","limits":{"in_flight":2},"tools":[{"match":"must","guard":"required"}]},
		"shaped":{"server":"srv","principal":["header:x-user"],"preset":"derived"}},"routes":{"r":"shaped"},"default":"p"}`)
	var seen []string
	send := func(body string, h ...string) *exchange {
		x := w.open(g, append(h, "x-user", caller, "mcp-session-id", session, "authorization", caller)...)
		if len(h) > 0 && h[0] == "route" {
			x.properties["xds.route_name"] = "r"
		}
		x.arrive(body)
		seen = append(seen, x.reply, fmt.Sprint(x.headers))
		for name, value := range x.state {
			seen = append(seen, name+"="+value)
		}
		return x
	}
	args := `{"a":"` + argument + `"}`
	call := toolCall("1", args)
	first := send(call, "idempotency-key", key)
	send(call, "idempotency-key", key)                                     // in flight
	send(toolCall("1", `{}`), "idempotency-key", key)                      // conflict
	send(call, "idempotency-key", key+"2")                                 // lost
	send(call, "idempotency-key", key+"3")                                 // capacity
	send(call, "idempotency-key", key+" x")                                // invalid
	send(call, "idempotency-key", key, "x-idempotency-key", key+"x")       // two that differ
	send(call, "idempotency-key", key, "mcp-name", argument)               // routing headers
	send(call)                                                             // no key
	send(call+argument, "idempotency-key", key)                            // broken
	send(strings.Replace(call, "name", "Name", 1), "idempotency-key", key) // a case variant
	send(strings.Replace(call, "charge", "must", 1))                       // required
	send(`{"method":"`+argument+`"}`, "idempotency-key", key)              // stray
	send(call, "route", "")                                                // derived
	send(toolCall("2", args), "route", "")                                 // in flight, shaped
	first.answer(500, "text/plain", argument)
	send(call, "idempotency-key", key) // outcome unknown
	for _, method := range []string{"RequestBody", "SetRequestHeader", "SetState"} {
		x := w.open(g, "idempotency-key", key+method, "x-user", caller)
		x.panicsIn = method
		x.arrive(call)
		seen = append(seen, x.reply)
	}
	w.memory.broken = true
	send(call, "idempotency-key", key+"4")
	for name := range w.counts {
		seen = append(seen, name)
		if strings.Contains(name, "charge") {
			t.Errorf("a label with what a request named: %s", name)
		}
	}
	seen = append(seen, w.logs...)
	for _, text := range seen {
		for _, secret := range []string{key, argument, caller, session} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is told in %q", secret, text)
			}
		}
	}
	for _, outcome := range []string{"first", "in_flight", "conflict", "unknown_outcome", "capacity", "rejected", "forwarded"} {
		if w.count("outcome=.="+outcome) == 0 {
			t.Errorf("no %s was made to happen", outcome)
		}
	}
}
