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
