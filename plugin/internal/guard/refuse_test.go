package guard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/policy"
)

func TestMisnamedPolicy(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	for name, c := range map[string]struct {
		body    string
		refused bool
	}{
		"a call":      {toolCall("1", `{}`), true},
		"a broken":    {"{", true},
		"a list":      {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, false},
		"no key even": {toolCall("1", `{"x":1}`), true},
	} {
		t.Run(name, func(t *testing.T) {
			x := w.open(g)
			x.properties["xds.route_metadata.filter_metadata.callonce.policy"] = "paymnets"
			x.properties["xds.route_name"] = "r1"
			x.arrive(c.body)
			if c.refused {
				x.wantRefused(503, "idempotency_unavailable")
			} else {
				x.wantSent()
			}
		})
	}
	if want := []string{`the metadata callonce/policy of the route "r1": found "paymnets", expected "off" or the name of a policy, in quotes. Its tool calls are refused`}; !slices.Equal(w.logs, want) {
		t.Errorf("logged %q, want once %q", w.logs, want)
	}
	// What YAML makes of off without quotes is off too.
	for _, off := range []string{"off", "\x00"} {
		x := w.open(g, "idempotency-key", "k")
		x.properties["xds.route_metadata.filter_metadata.callonce.policy"] = off
		x.arrive(toolCall("1", `{}`))
		x.wantSent()
		if len(x.state) > 0 {
			t.Errorf("a route that is off was looked at: %v", x.state)
		}
	}
	// Any other boolean or number is a mistake.
	for _, odd := range []string{"\x01", "\x00\x00\x00\x00\x00\x00\xf0\x3f"} {
		x := w.open(g, "idempotency-key", "k")
		x.properties["xds.route_metadata.filter_metadata.callonce.policy"] = odd
		x.arrive(toolCall("1", `{}`))
		x.wantRefused(503, "idempotency_unavailable")
		if !strings.Contains(x.reply, `"retry":"never"`) || x.headers["retry-after"] != "" || !strings.Contains(w.logs[len(w.logs)-1], "found a number or a boolean") {
			t.Errorf("%q: %s, logged %q", odd, x.reply, w.logs)
		}
	}
	// However many there are.
	for i := range 100 {
		x := w.open(g)
		x.properties["xds.route_metadata.filter_metadata.callonce.policy"] = fmt.Sprint("p", i)
		x.arrive(toolCall("1", `{}`))
	}
	if len(w.logs) > mostRemarks[aboutRoute] {
		t.Errorf("logged %d lines", len(w.logs))
	}
}

// A refused call says in the access log what it was, before anybody claimed anything.
func TestRefusedCallsArePublished(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"reply":"http","server":"s","principal":["header:x-user"],"tools":[{"match":"charge","guard":"required"}]}},"default":"p"}`)
	for kind, headers := range map[string][]string{
		"idempotency_key_required":               {"x-user", "ada"},
		"idempotency_key_invalid":                {"x-user", "ada", "idempotency-key", "a b"},
		"idempotency_requires_verified_identity": {"idempotency-key", "k"},
	} {
		x := w.send(g, toolCall("9", `{"a":1}`), headers...)
		x.wantRefused(400, kind)
		_, hashed := x.state["callonce.arguments_hash"]
		if x.state["callonce.tool"] != "charge" || x.state["callonce.request_id"] != "9" || hashed != (kind != "idempotency_requires_verified_identity") || x.state["callonce.key_hash"] != "" {
			t.Errorf("%s: published %v", kind, x.state)
		}
	}
	if len(w.memory.values) > 3 {
		t.Errorf("the ledger was asked: %d records", len(w.memory.values))
	}
}

// Who sent no key is not told of one.
func TestWordsWithoutKey(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"reply":"http","server":"s","anonymous":true,"tools":[{"match":"charge","guard":"derived","status_tool":"get"}],"limits":{"in_flight":1}}},"default":"p"}`)
	first := w.send(g, toolCall("1", `{}`))
	first.wantSent()
	say := func(x *exchange, status int, kind, text string) {
		t.Helper()
		x.wantRefused(status, kind)
		if !strings.Contains(x.reply, text) || strings.Contains(x.reply, "same key") || strings.Contains(x.reply, "another key") {
			t.Errorf("%s: %s", kind, x.reply)
		}
	}
	say(w.send(g, toolCall("2", `{}`)), 409, "idempotency_in_flight", "with others; call get to see its state. The same request will return the result once it is there.")
	say(w.send(g, toolCall("2", `{"b":1}`)), 429, "idempotency_capacity", "Send the same request later.")
	first.stream.Done()
	say(w.send(g, toolCall("3", `{}`)), 409, "idempotency_outcome_unknown", "with an idempotency key of its own; call get to see its state.")
	// A key of its own lets it run again, and speaks of keys.
	w.send(g, toolCall("4", `{}`), "idempotency-key", "k").wantSent()
	w.send(g, toolCall("5", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_in_flight")
}

func TestMisnamedMustGuard(t *testing.T) {
	if !misnamed.MustGuard || misnamed.MaxRequestBytes == 0 || misnamed.Tool("x").Guard != policy.GuardOff {
		t.Error("a route with a misnamed policy must read every body")
	}
}

// The log says once where no identity came from, and nothing of the caller.
func TestNoIdentityIsTold(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"reply":"http","server":"s","principal":[["metadata:envoy.filters.http.jwt_authn/payload/iss","metadata:envoy.filters.http.jwt_authn/payload/sub"],"header:x-user"]}},"default":"p"}`)
	for range 3 {
		w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantRefused(400, "idempotency_requires_verified_identity")
		w.send(g, toolCall("1", `{}`), "idempotency-key", "k", "x-user", "ada", "x-user", "bob").wantRefused(400, "idempotency_requires_verified_identity")
	}
	want := []string{`a call under the policy "p" has no identity: none came from metadata:envoy.filters.http.jwt_authn/payload/iss with metadata:envoy.filters.http.jwt_authn/payload/sub, nor from header:x-user. ` +
		"A header that is sent twice, and a value that is not one line of text, refuse the call too"}
	if !slices.Equal(w.logs, want) {
		t.Errorf("logged %q\nexpected %q", w.logs, want)
	}
}
