package guard

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Rows of docs/designs.md that no other test shows whole.

// G3: 1 to 255 visible ASCII characters, one value.
func TestGatewayKeys(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("gateway", ""))
	for key, valid := range map[string]bool{
		"k": true, strings.Repeat("k", 255): true, strings.Repeat("k", 256): false, "": false, "a b": false, "é": false,
	} {
		x := w.send(g, toolCall("1", `{}`), user, "ada", "mcp-session-id", "s", "idempotency-key", key)
		if valid {
			x.wantSent()
		} else {
			x.wantRefused(400, "idempotency_key_invalid")
		}
	}
	w.send(g, toolCall("1", `{}`), user, "ada", "idempotency-key", "a", "idempotency-key", "a").wantRefused(400, "idempotency_key_invalid")
}

// G5: calls without a session share one scope, apart from that of any session.
func TestGatewayWithoutSession(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("gateway", ""))
	ask := func(h ...string) *exchange {
		return w.send(g, toolCall("1", `{}`), append([]string{user, "ada", "idempotency-key", "k"}, h...)...)
	}
	ask().answer(200, "application/json", okResult)
	ask().wantReplayed(okResult)
	ask("mcp-session-id", "s").wantSent()
}

// G7: a replay has the status of the first answer, the type that the asking client takes,
// and no other header but the one that says what it is.
func TestReplayHeaders(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("gateway", ""))
	ask := func(key string, h ...string) *exchange {
		return w.send(g, toolCall("1", `{}`), append([]string{user, "ada", "idempotency-key", key}, h...)...)
	}
	for first, body := range map[string]string{"application/json; charset=utf-8": okResult, "text/event-stream": "data: " + okResult + "\n\n"} {
		ask(first[:4]).answer(201, first, body, "set-cookie", "a=b", "x-own", "1", "idempotency-replayed", "no")
		for accepts, want := range map[string]string{"application/json, text/event-stream": "application/json", "*/*": "application/json", "text/event-stream": "text/event-stream"} {
			x := ask(first[:4], "accept", accepts)
			if x.sent || x.status != 201 || !strings.Contains(x.reply, okResult) || fmt.Sprint(x.headers) != fmt.Sprint(map[string]string{"content-type": want, "idempotency-replayed": "true"}) {
				t.Errorf("%s, asked for as %s: sent %v, %d %v %s", first, accepts, x.sent, x.status, x.headers, x.reply)
			}
		}
	}
}

// G16: the store is asked with hashes only, and keeps nothing else but the answer.
func TestStoreSeesHashes(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("gateway", `,"scope":["header:x-tenant"]`))
	x := w.send(g, toolCall(`"raw-id"`, `{"a":"raw-argument"}`), user, "raw-caller", "x-tenant", "raw-tenant", "mcp-session-id", "raw-session", "idempotency-key", "raw-key")
	x.answer(200, "application/json", `{"jsonrpc":"2.0","id":"raw-id","result":{"content":[]}}`)
	for name, cell := range w.memory.values {
		for _, secret := range []string{"raw-argument", "raw-caller", "raw-tenant", "raw-session", "raw-key"} {
			if strings.Contains(name, secret) || strings.Contains(string(cell.value), secret) {
				t.Errorf("%s is in the store at %s", secret, name)
			}
		}
	}
}

// S3: strings are compared as they are, without normalisation. S7: a session is no part
// of the scope. S8: after ttl a key is a new call.
func TestSEP3182Equality(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("sep3182", `,"ttl":"1m"`))
	ask := func(args, session string) *exchange {
		return w.send(g, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"idempotencyKey":"k","name":"charge","arguments":`+args+`}}`, user, "ada", "mcp-session-id", session)
	}
	ask(`{"to":"\u00e9","a":1,"b":[ ]}`, "one").answer(200, "application/json", okResult)
	ask(`{"b":[],"a":1e0,"to":"é"}`, "two").wantReplayed(okResult)
	ask(`{"to":"e\u0301","a":1,"b":[]}`, "one").wantRefused(200, "idempotency_key_conflict")
	w.pass(time.Minute)
	ask(`{"to":"e\u0301","a":1,"b":[]}`, "one").wantSent()
}

// D8: an answer over the cap passes once; its repeat is told where to look. D11: what is
// off costs nothing. D10: the derived key goes on where forward_key says so.
func TestDerivedBuckets(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("derived", `,"forward_key":"x-key","tools":[{"match":"get_*","guard":"off"},{"match":"charge","status_tool":"get_charge"}]`))
	before := len(w.memory.values)
	read := w.send(g, strings.Replace(toolCall("1", `{"idempotency_key":"k"}`), "charge", "get_charge", 1), user, "ada")
	read.wantSent()
	if len(read.state) > 0 || len(read.header("x-key"))+len(read.header("x-envoy-max-retries")) > 0 || len(w.memory.values) != before || len(w.counts) > 0 ||
		!strings.Contains(string(read.body), "idempotency_key") {
		t.Errorf("a read was looked after: %v, %v, %s", read.state, read.request, read.body)
	}
	first := w.send(g, toolCall("1", `{"a":1}`), user, "ada")
	first.wantSent()
	key := first.header("x-key")
	if len(key) != 1 || len(key[0]) != 64 || !strings.HasPrefix(key[0], first.state["callonce.key_hash"]) {
		t.Errorf("the derived key went on as %v, the key's hash is %s", key, first.state["callonce.key_hash"])
	}
	first.answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"pad":"`+strings.Repeat("x", 64<<10)+`"}}`)
	again := w.send(g, toolCall("2", `{"a":1}`), user, "ada")
	again.wantRefused(200, "idempotency_response_not_replayable")
	if !strings.Contains(again.reply, "call get_charge to see its result") {
		t.Errorf("not told where to look: %s", again.reply)
	}
}

// F1: an opaque key of 1 to 255 characters, that reads do not take.
func TestForwardKeys(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("forward", `,"tools":[{"match":"get_*","guard":"off"}]`))
	// Gateways fill the argument that a model leaves out with "": no key, and not for the server.
	empty := w.send(g, toolCall("1", `{"a":1,"idempotency_key":""}`), user, "ada")
	empty.wantSent()
	if want := toolCall("1", `{"a":1}`); string(empty.body) != want || empty.header("x-idempotency-key") != nil || empty.state["callonce.outcome"] != "" {
		t.Errorf("without a key the server got %s, outcome %q, headers %v", empty.body, empty.state["callonce.outcome"], empty.request)
	}
	for n, sent := range map[int]bool{1: true, 255: true, 256: false} {
		x := w.send(g, toolCall("1", fmt.Sprintf(`{"idempotency_key":"%s"}`, strings.Repeat("#", n))), user, "ada")
		if sent {
			x.wantSent()
		} else {
			x.wantRefused(200, "idempotency_key_invalid")
		}
	}
	list := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"get_x","inputSchema":{"type":"object"}}]}}`
	x := w.send(g, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, user, "ada")
	x.begin(200, "application/json")
	x.chunk = []byte(list)
	if x.stream.ResponseBody(len(list), true); string(x.chunk) != list {
		t.Errorf("a read was given the argument: %s", x.chunk)
	}
}

// R1: what a server says of its tools in annotations changes nothing.
func TestAnnotationsAreHints(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("derived", ""))
	list := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"charge","annotations":{"readOnlyHint":true,"idempotentHint":true},"inputSchema":{"type":"object"}}]}}`
	x := w.send(g, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, user, "ada")
	x.begin(200, "application/json")
	x.chunk = []byte(list)
	x.stream.ResponseBody(len(list), true)
	if !strings.Contains(string(x.chunk), `"idempotency_key"`) {
		t.Errorf("a tool that calls itself a read was left out: %s", x.chunk)
	}
	w.send(g, toolCall("1", `{}`), user, "ada").answer(200, "application/json", okResult)
	if y := w.send(g, toolCall("1", `{}`), user, "ada"); y.sent {
		t.Error("a tool that calls itself a read ran twice")
	}
}
