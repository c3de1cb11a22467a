package guard

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// G13: with limits_scope proxy the caps count over all policies that say so, an identity's
// at all servers together; by default each policy counts by itself.
func TestLimitsOfProxy(t *testing.T) {
	config := func(scope string) string {
		one := func(name string) string {
			return `"` + name + `":{"server":"` + name + `","reply":"http","principal":["header:x-user"]` + scope +
				`,"limits":{"entries":4,"entries_per_principal":3,"entries_per_scope":3,"in_flight":2,"in_flight_per_principal":1,"on_full":"evict"}}`
		}
		return `{"namespace":"ns","policies":{` + one("a") + `,` + one("b") + `},"routes":{"b":"b"},"default":"a"}`
	}
	for name, c := range map[string]struct {
		scope    string
		together bool
	}{
		"of a policy": {``, false}, "of a policy, said": {`,"limits_scope":"policy"`, false}, "of the proxy": {`,"limits_scope":"proxy"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			g := w.worker(config(c.scope))
			call := func(route, who, key string) *exchange {
				x := w.open(g, user, who, "idempotency-key", key)
				x.properties["xds.route_name"] = route
				x.arrive(toolCall("1", `{}`))
				return x
			}
			// In flight: ada's one call at a counts at b.
			first := call("", "ada", "k1")
			first.wantSent()
			switch other := call("b", "ada", "k2"); {
			case c.together:
				other.wantRefused(429, "idempotency_capacity")
			default:
				other.wantSent()
				other.answer(200, "application/json", okResult)
			}
			first.answer(200, "application/json", okResult)
			// Completed: ada's fourth anywhere evicts her oldest, wherever that is.
			for i, route := range []string{"b", "b", "b"} {
				w.pass(time.Millisecond)
				x := call(route, "ada", fmt.Sprint("more", i))
				x.wantSent()
				x.answer(200, "application/json", okResult)
			}
			again := call("", "ada", "k1")
			if again.sent != c.together {
				t.Errorf("ada's oldest, at the other server: runs again %v, expected %v", again.sent, c.together)
			}
			again.stream.Done()
			label := "server=.=b;.;"
			if c.together {
				label = ""
			}
			for range 10 {
				w.pass(time.Second)
				g.Tick(w.now)
			}
			if n := w.count("ns;.;" + label + "callonce_evicted_total"); n == 0 {
				t.Errorf("evictions are not counted under %q: %v", label, w.counts)
			}
			if n := w.gauges["namespace=.=ns;.;"+label+"state=.=completed;.;callonce_entries"]; n == 0 {
				t.Errorf("entries are not counted under %q: %v", label, w.gauges)
			}
		})
	}
}

// F5: a first step that only asks for a confirmation frees the key, the confirmed call runs
// under it, is lost, goes again, and is then replayed, also to a late first step.
func TestConfirmFirst(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("forward", `,"tools":[{"match":"charge","exclude":["/confirmed"],"not_done":[{"pointer":"/structuredContent/status","equals":"confirmation_required"}]}]`))
	ask := func(args string) *exchange { return w.send(g, toolCall("1", args), user, "ada") }
	const first, second = `{"idempotency_key":"k","a":1}`, `{"idempotency_key":"k","a":1,"confirmed":true}`
	for _, wrong := range []string{"false", "true"} { // a tool error may say so too
		ask(first).answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"isError":`+wrong+`,"structuredContent":{"status":"confirmation_required"}}}`)
	}
	if n := w.count("callonce_settled_total", "how=.=released"); n != 2 {
		t.Errorf("%d first steps freed their key, expected 2", n)
	}
	lost := ask(second)
	lost.wantSent()
	lost.stream.Done()
	again := ask(second)
	again.wantSent()
	again.answer(200, "application/json", okResult)
	ask(second).wantReplayed(okResult)
	ask(first).wantReplayed(okResult)
	// A handle of a task is no such result, whatever it says: what it began goes on.
	task := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","structuredContent":{"status":"confirmation_required"}}}`
	ask(`{"idempotency_key":"task"}`).answer(200, "application/json", task)
	ask(`{"idempotency_key":"task"}`).wantRefused(200, "idempotency_response_not_replayable")
}

func TestReplyShapes(t *testing.T) {
	for shape, status := range map[string]int{"http": 409, "jsonrpc": 200, "tool_result": 200} {
		w := newWorld(t)
		g := w.worker(anyone(`,"reply":"` + shape + `"`))
		w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantSent()
		x := w.send(g, toolCall("2", `{}`), "idempotency-key", "k")
		x.wantRefused(status, "idempotency_in_flight")
		if got := strings.Contains(x.reply, `"isError":true`); got != (shape == "tool_result") {
			t.Errorf("%s: %s", shape, x.reply)
		}
		w.send(g, "{", "idempotency-key", "k").wantRefused(400, "idempotency_unsupported_request")
		mismatch := w.send(g, toolCall("2", `{}`), "mcp-method", "x", "idempotency-key", "k")
		if mismatch.status != 400 || !strings.Contains(mismatch.reply, `-32020`) {
			t.Errorf("%s reshaped the protocol's own error: %d %s", shape, mismatch.status, mismatch.reply)
		}
	}
}

// mode observe computes, counts and logs everything, and edits and refuses nothing.
func TestObserve(t *testing.T) {
	w := newWorld(t)
	g := w.worker(anyone(`,"mode":"observe","strip":true,"forward_key":"x-key","max_request_bytes":1024,"tools":[{"match":"*","guard":"required"}]`))
	send := func(body string, h ...string) *exchange {
		x := w.send(g, body, h...)
		x.wantSent()
		if x.state["callonce.outcome"] == "" || x.state["callonce.mode"] != "observe" {
			t.Errorf("published %v: want an outcome, and that it was only observed", x.state)
		}
		if len(x.header("accept-encoding")) != 1 || len(x.header("x-envoy-max-retries"))+len(x.header("x-key")) > 0 || string(x.body) != body {
			t.Errorf("edited: %v %s", x.request, x.body)
		}
		return x
	}
	body := toolCall("1", `{"idempotency_key":"k"}`)
	first := send(body)
	send(body)
	first.answer(200, "application/json", okResult)
	send(body).answer(200, "application/json", okResult)
	send(toolCall("1", `{"idempotency_key":"k","other":1}`))
	send(toolCall("1", `{}`))
	send("{")
	send(body, "mcp-method", "tools/list")
	send(body, "content-type", "text/plain")
	send(strings.Repeat(" ", 2000))
	send(toolCall("1", `{"idempotency_key":"two words"}`)) // no header value
	for outcome, want := range map[string]uint64{"first": 1, "in_flight": 1, "replay": 1, "conflict": 1, "rejected": 6} {
		if got := w.count("mcp_gateway_idempotency_total", "outcome=.="+outcome); got != want {
			t.Errorf("%s: counted %d, expected %d", outcome, got, want)
		}
	}
	x := w.open(g, "idempotency-key", "k9")
	x.panicsIn = "RequestBody"
	x.arrive(body)
	x.wantSent()
	enforced := newWorld(t)
	x = enforced.send(enforced.worker(anyone(``)), body)
	if mode, said := x.state["callonce.mode"]; said || x.state["callonce.outcome"] != "first" {
		t.Errorf("enforced: want an outcome and no mode, found %v (%q)", x.state, mode)
	}
}

func TestStoreErrorForwards(t *testing.T) {
	w := newWorld(t)
	g := w.worker(anyone(`,"on_store_error":"forward","strip":true`))
	w.memory.broken = true
	x := w.send(g, toolCall("1", `{"idempotency_key":"k"}`))
	x.wantSent()
	if want := toolCall("1", `{}`); string(x.body) != want || x.state["callonce.outcome"] != "forwarded" || len(w.logs) == 0 {
		t.Errorf("expected the stripped call, counted and logged; found %s %v %q", x.body, x.state, w.logs)
	}
}

func TestReleasedStatuses(t *testing.T) {
	w := newWorld(t)
	g := w.worker(anyone(`,"released_statuses":[503]`))
	for status, again := range map[int]bool{503: true, 502: false} {
		key := fmt.Sprint("k", status)
		w.send(g, toolCall("1", `{}`), "idempotency-key", key).answer(status, "", "")
		if x := w.send(g, toolCall("1", `{}`), "idempotency-key", key); x.sent != again {
			t.Errorf("%d: runs again is %v, expected %v", status, x.sent, again)
		}
	}
}

// The proxy's own attributes as identity: claims and certificates.
func TestAttributes(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"server":"s","reply":"http","scope":["metadata:jwt/payload/tenant"],
		"principal":[["metadata:jwt/payload/iss","metadata:jwt/payload/sub"],"peer:uri_san","peer:subject"]}},"default":"p"}`)
	const iss, sub, tenant = "metadata.filter_metadata.jwt.payload.iss", "metadata.filter_metadata.jwt.payload.sub", "metadata.filter_metadata.jwt.payload.tenant"
	const san, subject = "connection.uri_san_peer_certificate", "connection.subject_peer_certificate"
	const validated = "metadata.filter_metadata.envoy.filters.http.rbac.callonce_peer_shadow_engine_result"
	ask := func(props ...string) *exchange {
		x := w.open(g, "idempotency-key", "k")
		for i := 0; i < len(props); i += 2 {
			x.properties[props[i]] = props[i+1]
		}
		x.arrive(toolCall("1", `{}`))
		return x
	}
	hashes := map[string]int{}
	for i, props := range [][]string{
		{iss, "a", sub, "spiffe://x"},
		{iss, "b", sub, "spiffe://x"},
		{san, "spiffe://x", validated, "allowed"},
		{subject, "spiffe://x", validated, "allowed"},
		{iss, "a", sub, "spiffe://x", tenant, "t"},
	} {
		x := ask(props...)
		x.wantSent()
		if other, taken := hashes[x.state["callonce.key_hash"]]; taken {
			t.Errorf("callers %d and %d share a key", i, other)
		}
		hashes[x.state["callonce.key_hash"]] = i
	}
	for name, props := range map[string][]string{
		"an issuer alone":            {iss, "a"},
		"a certificate, unvalidated": {san, "spiffe://x"},
		"a certificate, denied":      {san, "spiffe://x", validated, "denied"},
		"a claim of two lines":       {iss, "a", sub, "x\ny"},
		"a claim that is no text":    {iss, "\x00\x00\x00\x00\x00\x00\xf0\x3f", sub, "x"},
	} {
		t.Run(name, func(t *testing.T) { ask(props...).wantRefused(400, "idempotency_requires_verified_identity") })
	}
}
