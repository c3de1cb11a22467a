package guard

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func preset(name, more string) string {
	return `{"namespace":"ns","policies":{"p":{"preset":"` + name + `","server":"srv","principal":["header:x-user"]` + more + `}},"default":"p"}`
}

func anyone(members string) string {
	if !strings.Contains(members, `"reply":`) {
		members = `,"reply":"http"` + members
	}
	return `{"namespace":"ns","policies":{"p":{"server":"srv","anonymous":true` + members + `}},"default":"p"}`
}

const user = "x-user"

// Preset gateway, row by row of the decision record (designs G1–G6, G13).
func TestGateway(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("gateway", `,"tools":[{"match":"get","guard":"off"}]`))
	ask := func(body string, h ...string) *exchange {
		return w.send(g, body, append([]string{user, "ada", "mcp-session-id", "s1"}, h...)...)
	}
	unbuffered := w.open(g)
	if unbuffered.stream.RequestHeaders(false) != Continue || len(unbuffered.state) > 0 {
		t.Error("G1: a request without the header is looked at")
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "idempotency-key", "k").wantRefused(400, "idempotency_unsupported_request")
	ask("", ":method", "GET", "idempotency-key", "k").wantRefused(400, "idempotency_unsupported_request")
	ask(strings.Replace(toolCall("1", `{}`), "charge", "get", 1), "idempotency-key", "k").wantRefused(400, "idempotency_unsupported_request")
	ask(strings.Replace(toolCall("1", `{}`), "charge", "get", 1)).wantSent()
	ask(toolCall("1", `{"idempotency_key":"k"}`)).wantSent() // only the header is a key source
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantRefused(400, "idempotency_requires_verified_identity")
	first := ask(toolCall("1", `{}`), "idempotency-key", "k")
	first.answer(200, "application/json", okResult)
	ask(toolCall("1", `{}`), "idempotency-key", "k").wantReplayed(okResult)
	ask(toolCall("2", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_key_conflict") // G6: the id is part of the intent
	w.send(g, toolCall("1", `{}`), user, "ada", "mcp-session-id", "s2", "idempotency-key", "k").wantSent()
	// G13: four in flight per scope, then capacity; unkeyed traffic is untouched.
	for i := range 4 {
		ask(toolCall("1", `{}`), "idempotency-key", fmt.Sprint("flight", i)).wantSent()
	}
	full := ask(toolCall("1", `{}`), "idempotency-key", "flight5")
	full.wantRefused(429, "idempotency_capacity")
	if full.headers["retry-after"] == "" {
		t.Error("a capacity refusal without Retry-After")
	}
	ask(toolCall("1", `{}`)).wantSent()
}

// G13: at an entry cap the oldest completed entry of the level is evicted, and
// counted; its repeat runs again.
func TestGatewayEvicts(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("gateway", ""))
	call := func(i int) *exchange {
		w.pass(time.Millisecond)
		return w.send(g, toolCall("1", `{}`), user, "ada", "mcp-session-id", "s", "idempotency-key", fmt.Sprint("k", i))
	}
	for i := range 33 {
		x := call(i)
		x.wantSent()
		x.answer(200, "application/json", okResult)
	}
	if n := w.count("callonce_evicted_total", "server=.=srv"); n == 0 {
		t.Error("33 entries in a scope of 32 and nothing was evicted")
	}
	if got := w.gauges["namespace=.=ns;.;server=.=srv;.;callonce_youngest_evicted_seconds"]; got != 1 {
		t.Errorf("the youngest one evicted: expected 1 second, found %d", got)
	}
	call(32).wantReplayed(okResult)
	call(0).wantSent()
}

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

// Preset sep3182 (designs S1–S6).
func TestSEP3182(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("sep3182", ""))
	body := func(id, args string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"idempotencyKey":"any stríng","name":"charge","arguments":` + args + `}}`
	}
	first := w.send(g, body("1", `{"n":1}`), user, "ada")
	first.wantSent()
	y := w.send(g, body("2", `{"n":1.0}`), user, "ada")
	y.wantRefused(200, "idempotency_key_in_progress")
	if !strings.Contains(y.reply, `"id":2`) || !strings.Contains(y.reply, `"also":["idempotency_in_flight"]`) {
		t.Errorf("in flight: %s", y.reply)
	}
	w.send(g, body("3", `{"n":2}`), user, "ada").wantRefused(200, "idempotency_key_conflict")
	first.answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`)
	w.send(g, body("4", `{"n":1}`), user, "ada").wantReplayed(`{"jsonrpc":"2.0","id":4,"error":{"code":-1,"message":"no"}}`)
	w.send(g, toolCall("5", `{"idempotency_key":"k"}`), user, "ada").wantSent()
	w.send(g, body("6", `{"n":1`), user, "ada").wantRefused(400, "idempotency_unsupported_request") // unread: always http
}

// Preset derived (designs D1–D7).
func TestDerived(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("derived", `,"tools":[{"match":"get","guard":"off"},{"match":"charge","exclude":["/nonce"],"round":{"/at":60},"status_tool":"get"}]`))
	ask := func(args string, h ...string) *exchange {
		return w.send(g, toolCall("7", args), append([]string{user, "ada"}, h...)...)
	}
	first := ask(`{"a":1,"nonce":"x","at":61}`)
	first.wantSent()
	y := ask(`{"at":"1970-01-01T00:01:02Z","a":1.0,"nonce":"y"}`)
	y.wantRefused(200, "idempotency_in_flight")
	for _, part := range []string{`"result":{"resultType":"complete","isError":true`, "call get to see its state", `"_meta":{"callonce.dev/refusal"`} {
		if !strings.Contains(y.reply, part) {
			t.Errorf("expected %s in %s", part, y.reply)
		}
	}
	first.answer(200, "application/json", `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`)
	ask(`{"a":1,"at":100}`).wantReplayed(`{"jsonrpc":"2.0","id":7,"result":{"_meta":{"callonce.dev/replayed":true},"content":[]}}`)
	ask(`{"a":1,"at":121}`).wantSent() // the next minute
	w.send(g, toolCall("7", `{"a":1,"at":61}`), user, "bob").wantSent()

	keyed := ask(`{"a":1,"at":61,"idempotency_key":"again"}`) // a deliberate repeat
	keyed.wantSent()
	if want := toolCall("7", `{"a":1,"at":61}`); string(keyed.body) != want {
		t.Errorf("the key was not cut out: expected %s, found %s", want, keyed.body)
	}
	if got := fmt.Sprint(keyed.header("content-length")); got != fmt.Sprint([]int{len(keyed.body)}) {
		t.Errorf("content-length: %s for %d bytes", got, len(keyed.body))
	}
	keyed.answer(200, "application/json", `{"jsonrpc":"2.0","id":7,"result":{"isError":true}}`)
	failed := ask(`{"a":1,"at":61,"idempotency_key":"again"}`) // a failed one is taken over
	failed.wantSent()
	failed.answer(200, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"x"}}`)
	running := ask(`{"a":1,"at":61,"idempotency_key":"again"}`) // however it failed
	running.wantSent()

	// Both with a key and without, who repeats a call that runs is told to ask.
	running = ask(`{"a":2}`)
	running.wantSent()
	for _, args := range []string{`{"a":2}`, `{"a":1,"at":61,"idempotency_key":"again"}`} {
		y := ask(args)
		y.wantRefused(200, "idempotency_in_flight")
		if !strings.Contains(y.reply, "Do not retry; call get to see its state.\"") || !strings.Contains(y.reply, `"retry":"reconcile_first"`) || y.headers["retry-after"] != "" {
			t.Errorf("told %s %v", y.reply, y.headers)
		}
	}
}

// status_argument is named where the tool is that takes it, and its value is not.
func TestStatusArgument(t *testing.T) {
	for _, members := range []string{`"preset":"derived",`, `"reply":"tool_result",`} {
		w := newWorld(t)
		g := w.worker(`{"policies":{"p":{` + members + `"server":"srv","anonymous":true,"tools":[{"match":"*","status_tool":"get_charge","status_argument":"order\nid"}]}},"default":"p"}`)
		ask := func() *exchange { return w.send(g, toolCall("1", `{"order\nid":"secret","idempotency_key":"k"}`)) }
		first := ask()
		first.wantSent()
		for _, kind := range []string{"idempotency_in_flight", "idempotency_outcome_unknown"} {
			if kind == "idempotency_outcome_unknown" {
				first.stream.Done()
			}
			y := ask()
			y.wantRefused(200, kind)
			if !strings.Contains(y.reply, "; call get_charge with the same order?id to see its state") || strings.Contains(y.reply, "secret") {
				t.Errorf("%s: %s", kind, y.reply)
			}
		}
	}
}

// Preset forward (designs F1–F5).
func TestForward(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("forward", `,"tools":[{"match":"charge","exclude":["/confirmed"]}]`))
	ask := func(args string) *exchange {
		return w.send(g, toolCall("1", args), user, "ada", "x-idempotency-key", "own")
	}
	x := ask(`{"idempotency_key":"k","a":1}`)
	x.wantSent()
	if got := fmt.Sprint(x.header("x-idempotency-key")); got != "[k]" {
		t.Errorf("F2: the key went on as %s", got)
	}
	if want := toolCall("1", `{"a":1}`); string(x.body) != want {
		t.Errorf("F2: expected the body %s, found %s", want, x.body)
	}
	x.stream.Done() // F4: lost; the server deduplicates, so the call may go on again
	x = ask(`{"idempotency_key":"k","a":1}`)
	x.wantSent()
	if x.state["callonce.attempt"] != "2" {
		t.Errorf("F4: the attempt was not counted: %v", x.state)
	}
	x.answer(200, "application/json", okResult)
	ask(`{"idempotency_key":"k","a":1,"confirmed":true}`).wantReplayed(okResult) // F5
	y := ask(`{"idempotency_key":"k","a":2}`)
	y.wantRefused(200, "idempotency_key_conflict")
	if !strings.Contains(y.reply, `"also":["IDEMPOTENCY_KEY_REUSED"]`) || !strings.Contains(y.reply, `"isError":true`) {
		t.Errorf("F3: %s", y.reply)
	}
	ask(`{"idempotency_key":"ü"}`).wantRefused(200, "idempotency_key_invalid") // it cannot go on in a header
	ask(`{"a":1}`).wantSent()
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

// Where headers are gone, a key that must travel in one cannot: the call is refused,
// for good.
func TestForwardWithoutHeldHeaders(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("forward", ""))
	g.buffering = notBuffered
	x := w.open(g, user, "ada", "content-length", "99")
	x.body = []byte(toolCall("1", `{"idempotency_key":"k"}`))
	if x.stream.RequestHeaders(false) != Continue || len(x.header("content-length")) > 0 {
		t.Fatal("the headers were held, or kept a length that strip would break")
	}
	x.sent = x.stream.RequestBody(len(x.body), true) == Continue
	x.wantRefused(200, "idempotency_unavailable")
	if !strings.Contains(x.reply, `"retry":"never"`) {
		t.Errorf("waiting does not help here: %s", x.reply)
	}
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
