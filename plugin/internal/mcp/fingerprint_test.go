package mcp_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

// intents are calls with the exact text that is hashed for them. A change of any of
// these texts makes every repeat that straddles an update a conflict.
var intents = []struct {
	name string
	body string
	with mcp.Shape
	text string
}{
	{"arguments absent", call(`"name":"pay"`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"arguments null", argued(`null`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"arguments an empty list", argued(`[ ]`), mcp.Shape{Exclude: []string{"/0", "/a"}, Round: []mcp.Round{{Pointer: "/0", Seconds: 60}}},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"half of a surrogate pair", argued(`{"a":"cut \uD83D","b":"\\ud83d"}`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{"a":"cut \ud83d","b":"\\ud83d"},"name":"pay"}}`},
	{"an empty key in an argument out", argued(`{"idempotency_key":"","a":1}`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{"a":1},"name":"pay"}}`},
	{"arguments empty", argued(`{ }`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"member order, space, escapes, numbers", `{"params": {"n\u0061me": "pay", "arguments": {"b": [1.0, 10e-1, -0], "a": "\u00e9\/\n"}}, "method": "tools\/call", "id": 7}`, mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{"a":"é/\n","b":[1,1,0]},"name":"pay"}}`},
	{"names by UTF-16 code units (case 24)", argued(`{"\ufb33":1,"\ud83d\ude00":2}`), mcp.Shape{},
		"{\"method\":\"tools/call\",\"params\":{\"arguments\":{\"\U0001F600\":2,\"\uFB33\":1},\"name\":\"pay\"}}"},
	{"beyond a double (case 22)", argued(`{"n":9007199254740993}`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{"n":9007199254740993},"name":"pay"}}`},
	{"_meta out", call(`"_meta":{"progressToken":1,"traceparent":"00-1"},"name":"pay"`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"_meta inside arguments in", argued(`{"_meta":{"progressToken":1}}`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{"_meta":{"progressToken":1}},"name":"pay"}}`},
	{"key sources out", call(`"name":"pay","idempotencyKey":"k","_meta":{"callonce.dev/idempotency-key":"k"},"arguments":{"idempotency_key":"k","a":1}`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{"a":1},"name":"pay"}}`},
	{"only a key in arguments", argued(`{"idempotency_key":"k"}`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"null in key sources out", call(`"name":"pay","idempotencyKey":null,"arguments":{"idempotency_key":null}`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"a key's name deeper in", argued(`{"x":{"idempotency_key":"k"},"idempotencyKey":"k"}`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{"idempotencyKey":"k","x":{"idempotency_key":"k"}},"name":"pay"}}`},
	{"the second leg's members in (case 42)", call(`"task":{"ttl":60000.0},"requestState":"s","inputResponses":{"q":{"action":"accept"}},"name":"pay"`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{},"inputResponses":{"q":{"action":"accept"}},"name":"pay","requestState":"s","task":{"ttl":60000}}}`},
	{"null members of params in", call(`"name":"pay","task":null`), mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay","task":null}}`},
	{"a member before arguments", call(`"name":"pay","Aa":1,"":2,"\u0000":3`), mcp.Shape{},
		`{"method":"tools/call","params":{"":2,"\u0000":3,"Aa":1,"arguments":{},"name":"pay"}}`},
	{"members that begin like arguments", call(`"name":"pay","argument":1,"arguments2":2`), mcp.Shape{},
		`{"method":"tools/call","params":{"argument":1,"arguments":{},"arguments2":2,"name":"pay"}}`},
	{"members of the envelope out", `{"jsonrpc":"1.0","x":{"y":1},"id":7,"method":"tools/call","params":{"name":"pay"}}`, mcp.Shape{},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"id bound", `{"id":7,"method":"tools/call","params":{"name":"pay"}}`, mcp.Shape{BindID: true},
		`{"id":7,"method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"a string id bound", `{"id":"\u0037","method":"tools/call","params":{"name":"pay"}}`, mcp.Shape{BindID: true},
		`{"id":"7","method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"exclude", argued(`{"to":"a","sent_at":"2026","x":{"nonce":1,"y":2},"l":[1,2,3]}`), mcp.Shape{Exclude: []string{"/sent_at", "/x/nonce", "/l/0", "/l/1"}},
		`{"method":"tools/call","params":{"arguments":{"l":[3],"to":"a","x":{"y":2}},"name":"pay"}}`},
	{"exclude with escapes", argued(`{"a/b":1,"c~d":2,"e":3}`), mcp.Shape{Exclude: []string{"/a~1b", "/c~0d"}},
		`{"method":"tools/call","params":{"arguments":{"e":3},"name":"pay"}}`},
	{"exclude what is not there", argued(`{"a":1}`), mcp.Shape{Exclude: []string{"/b", "/a/b", "/name", ""}},
		`{"method":"tools/call","params":{"arguments":{"a":1},"name":"pay"}}`},
	{"exclude from absent arguments", call(`"name":"pay"`), mcp.Shape{Exclude: []string{"/a"}},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"exclude from null arguments", argued(`null`), mcp.Shape{Exclude: []string{"/a"}},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"exclude everything", argued(`{"a":1,"b":2}`), mcp.Shape{Exclude: []string{"/a", "/b"}},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"rounded", argued(`{"n":179.9,"s":"1970-01-01T00:02:59Z","x":{"at":-1},"l":[60],"soon":"soon","none":null}`), mcp.Shape{Round: []mcp.Round{{"/n", 60}, {"/s", 60}, {"/x/at", 60}, {"/l/0", 60}, {"/soon", 60}, {"/none", 60}, {"/absent", 60}, {"", 60}}},
		`{"method":"tools/call","params":{"arguments":{"l":[1],"n":2,"none":null,"s":2,"soon":"soon","x":{"at":-1}},"name":"pay"}}`},
	{"rounded by nothing", argued(`{"n":179}`), mcp.Shape{Round: []mcp.Round{{"/n", 0}, {"/n", -60}}},
		`{"method":"tools/call","params":{"arguments":{"n":179},"name":"pay"}}`},
	{"rounded and excluded", argued(`{"n":179,"m":1}`), mcp.Shape{Exclude: []string{"/n"}, Round: []mcp.Round{{"/n", 60}}},
		`{"method":"tools/call","params":{"arguments":{"m":1},"name":"pay"}}`},
	{"rounded in absent arguments", call(`"name":"pay"`), mcp.Shape{Round: []mcp.Round{{"/n", 60}}},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay"}}`},
	{"exclude stays inside arguments", call(`"name":"pay","task":1,"arguments":{"task":2}`), mcp.Shape{Exclude: []string{"/task"}},
		`{"method":"tools/call","params":{"arguments":{},"name":"pay","task":1}}`},
}

func TestIntent(t *testing.T) {
	for _, c := range intents {
		t.Run(c.name, func(t *testing.T) {
			body := []byte(c.body)
			var r mcp.Request
			r.Read(body, pointers)
			if r.Kind != mcp.ToolCall {
				t.Fatalf("%s: kind %d", c.body, r.Kind)
			}
			if got := string(r.AppendIntent([]byte("before"), c.with)); got != "before"+c.text {
				t.Errorf("%s\n got %s\nwant before%s", c.body, got, c.text)
			}
			sum, buf := r.Fingerprint([]byte("scratch"), c.with)
			if sum != sha256.Sum256([]byte(c.text)) || string(buf) != c.text {
				t.Errorf("%s: fingerprint %x of %s", c.body, sum, buf)
			}
			if string(body) != c.body {
				t.Errorf("the body became %s", body)
			}
		})
	}
}

// Digests computed elsewhere, so that text and hash cannot go wrong together.
func TestFingerprintBytes(t *testing.T) {
	for _, c := range []struct {
		body string
		with mcp.Shape
		want string
	}{
		{call(`"name":"pay"`), mcp.Shape{}, "55681f7b77d33045cea0e87af4691fc11f25d722a174391d40133fd251892e5b"},
		{call(`"name":"charge","arguments":{"currency":"EUR","amount":1250.00}`), mcp.Shape{}, "c79ca9ad332b5de959407fecbffb25516a91d9d154d1f231750dff1cf9e7ca5b"},
		{call(`"name":"pay"`), mcp.Shape{BindID: true}, "ce34d18cf68277dbe7ee629c8601221d7aa618139f9a239ac0361b8e60320dbe"},
	} {
		sum, _ := read(c.body).Fingerprint(nil, c.with)
		if got := hex.EncodeToString(sum[:]); got != c.want {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
}

// Calls that are, and calls that are not, the same intent as one call (cases 21 to 23,
// 42).
func TestSameIntent(t *testing.T) {
	base := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pay","arguments":{"n":1,"token":"t"},"_meta":{"progressToken":1,"traceparent":"00-a"}}}`
	want, _ := read(base).Fingerprint(nil, mcp.Shape{})
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"pay","arguments":{"n":1,"token":"t"},"_meta":{"progressToken":2,"traceparent":"00-b"}}}`,
		`{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"pay","arguments":{"n":1,"token":"t"}}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":null,"arguments":{"token":"t","n":1.0},"name":"pay"}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pay","arguments":{"n":10e-1,"token":"\u0074"}}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pay","idempotencyKey":"k","arguments":{"n":1,"token":"t","idempotency_key":"k"}}}`,
	} {
		if got, _ := read(body).Fingerprint(nil, mcp.Shape{}); got != want {
			t.Errorf("another intent: %s", body)
		}
	}
	seen := map[[32]byte]string{want: base}
	for _, params := range []string{
		`"name":"pay","arguments":{"n":2,"token":"t"}`,
		`"name":"pay","arguments":{"n":"1","token":"t"}`,
		`"name":"pay","arguments":{"n":1}`,
		`"name":"pay","arguments":{"n":1,"token":null}`,
		`"name":"pay","arguments":{"n":1,"token":"T"}`,
		`"name":"pay","arguments":{"n":[1],"token":"t"}`,
		`"name":"Pay","arguments":{"n":1,"token":"t"}`,
		`"name":"pay","n":1,"arguments":{"token":"t"}`,
		`"name":"pay","arguments":{"n":1,"token":"t","progressToken":1}`,
		`"name":"pay","arguments":{"n":1,"token":"t","progressToken":2}`,
		`"name":"pay","arguments":{"n":1,"token":"t","id":7}`,
		`"name":"pay","arguments":{"n":1,"token":"t","traceparent":"00-a"}`,
		`"name":"pay","arguments":{"n":1,"token":"t","_meta":{"traceparent":"00-a"}}`,
		`"name":"pay","arguments":{"n":1,"token":"t","_meta":{"traceparent":"00-b"}}`,
		`"name":"pay","arguments":{"n":9007199254740992,"token":"t"}`,
		`"name":"pay","arguments":{"n":9007199254740993,"token":"t"}`,
		`"name":"pay","arguments":{"n":1e400,"token":"t"}`,
		`"name":"pay","arguments":{"n":1e500,"token":"t"}`,
		`"name":"pay","arguments":{"n":2e400,"token":"t"}`,
		`"name":"pay","arguments":{"n":1e999999999,"token":"t"}`,
		`"name":"pay","arguments":{"n":1,"token":"é"}`,
		`"name":"pay","arguments":{"n":1,"token":"e\u0301"}`,
		`"name":"pay","arguments":{"n":1,"token":"t"},"requestState":"a"`,
		`"name":"pay","arguments":{"n":1,"token":"t"},"requestState":"b"`,
		`"name":"pay","arguments":{"n":1,"token":"t"},"requestState":"a","inputResponses":{"q":1}`,
		`"name":"pay","arguments":{"n":1,"token":"t"},"requestState":"a","inputResponses":{"q":2}`,
		`"name":"pay","arguments":{"n":1,"token":"t"},"task":{}`,
	} {
		got, _ := read(call(params)).Fingerprint(nil, mcp.Shape{})
		if with, ok := seen[got]; ok {
			t.Errorf("the same intent: %s and %s", params, with)
		}
		seen[got] = params
	}
}

// With bind_request_id another id is another intent, and the same one by value is not.
func TestBoundID(t *testing.T) {
	with := mcp.Shape{BindID: true}
	of := func(id string) [32]byte {
		sum, _ := read(`{"id":`+id+`,"method":"tools/call","params":{"name":"pay"}}`).Fingerprint(nil, with)
		return sum
	}
	if of(`7`) == of(`8`) || of(`7`) == of(`"7"`) || of(`"a"`) == of(`"b"`) {
		t.Error("two ids, one intent")
	}
	if of(`"a"`) != of(`"\u0061"`) || of(`0`) != of(`-0`) {
		t.Error("one id, two intents")
	}
}

// A policy may name key sources that a careful operator would not. Absent, null and empty
// arguments stay one call all the same.
func TestOddPlaces(t *testing.T) {
	for _, pointer := range []string{"/name", "/arguments", "/_meta", "/requestState/k", "/zzz"} {
		var want []byte
		for _, params := range []string{`"name":"pay"`, `"name":"pay","arguments":null`, `"name":"pay","arguments":{}`} {
			if pointer == "/arguments" && params == `"name":"pay","arguments":{}` {
				continue // an object where a key should be: the call is refused
			}
			var r mcp.Request
			r.Read([]byte(call(params)), []string{pointer})
			got := r.AppendIntent(nil, mcp.Shape{})
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) || !bytes.Contains(got, []byte(`"arguments":{}`)) {
				t.Errorf("key source %s: %s for %s, want %s", pointer, got, params, want)
			}
		}
	}
}
