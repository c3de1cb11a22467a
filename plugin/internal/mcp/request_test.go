package mcp_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

// pointers are the contract's default key sources in a body, below params.
var pointers = []string{"/idempotencyKey", "/_meta/callonce.dev~1idempotency-key", "/arguments/idempotency_key"}

// verdict is all that Read tells about a body.
type verdict struct {
	Kind     mcp.Kind
	Offset   int
	ID, Name string
	Keyed    bool
}

func verdictOf(r *mcp.Request) verdict {
	return verdict{r.Kind, r.Offset, string(r.ID), string(r.Name), r.Keyed}
}

func read(body string) *mcp.Request {
	var r mcp.Request
	r.Read([]byte(body), pointers)
	return &r
}

// call is a tools/call whose params are the given members.
func call(params string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + params + `}}`
}

// argued is a tools/call with the given arguments.
func argued(arguments string) string { return call(`"name":"pay","arguments":` + arguments) }

func nest(containers int) string {
	return strings.Repeat("[", containers) + strings.Repeat("]", containers)
}

const nowhere = -1

// requests are bodies with what Read must make of them.
var requests = []struct {
	name string
	body string
	want verdict
}{
	// A call, in every spelling that a strict reader takes for the same.
	{"call", call(`"name":"pay","arguments":{}`), verdict{mcp.ToolCall, nowhere, "7", "pay", false}},
	{"method with an escaped slash", `{"id":7,"method":"tools\/call","params":{"name":"pay"}}`, verdict{mcp.ToolCall, nowhere, "7", "pay", false}},
	{"method, id and name with escapes", `{"\u0069d":7,"m\u0065thod":"\u0074ools/call","params":{"n\u0061me":"p\u0061y"}}`, verdict{mcp.ToolCall, nowhere, "7", "pay", false}},
	{"white space all over", " \t\r\n{ \"id\" : 7 , \"method\" : \"tools/call\" , \"params\" : { \"name\" : \"pay\" } }\n\n", verdict{mcp.ToolCall, nowhere, "7", "pay", false}},
	{"members in another order", `{"params":{"arguments":{},"name":"pay"},"method":"tools/call","id":7}`, verdict{mcp.ToolCall, nowhere, "7", "pay", false}},
	{"no jsonrpc member", `{"id":7,"method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.ToolCall, nowhere, "7", "pay", false}},
	{"unknown members", `{"id":7,"x":[1],"method":"tools/call","params":{"name":"pay","y":{}}}`, verdict{mcp.ToolCall, nowhere, "7", "pay", false}},
	{"empty name", call(`"name":""`), verdict{mcp.ToolCall, nowhere, "7", "", false}},
	{"arguments absent", call(`"name":"pay"`), verdict{mcp.ToolCall, nowhere, "7", "pay", false}},
	{"arguments null", argued(`null`), verdict{mcp.ToolCall, nowhere, "7", "pay", false}},
	{"128 containers", argued(`{"a":` + nest(125) + `}`), verdict{mcp.ToolCall, nowhere, "7", "pay", false}},

	// Ids.
	{"id a string", `{"id":"a\u0062","method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.ToolCall, nowhere, `"a\u0062"`, "pay", false}},
	{"id an empty string", `{"id":"","method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.ToolCall, nowhere, `""`, "pay", false}},
	{"id zero", `{"id":0,"method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.ToolCall, nowhere, "0", "pay", false}},
	{"id minus zero", `{"id":-0,"method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.ToolCall, nowhere, "-0", "pay", false}},
	{"id beyond a double", `{"id":9007199254740993,"method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.ToolCall, nowhere, "9007199254740993", "pay", false}},
	{"id absent", `{"method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"id null", `{"id":null,"method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"id with a fraction", `{"id":7.5,"method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"id with a fraction of zero", `{"id":7.0,"method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"id with an exponent", `{"id":7e1,"method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"id with a capital exponent", `{"id":7E1,"method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"id true", `{"id":true,"method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"id an object", `{"id":{"id":7},"method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"id a list", `{"id":[7],"method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.Ambiguous, nowhere, "", "", false}},

	// Params, name and arguments of the wrong type.
	{"params absent", `{"id":7,"method":"tools/call"}`, verdict{mcp.Ambiguous, nowhere, "7", "", false}},
	{"params null", `{"id":7,"method":"tools/call","params":null}`, verdict{mcp.Ambiguous, nowhere, "7", "", false}},
	{"params a list", `{"id":7,"method":"tools/call","params":["pay"]}`, verdict{mcp.Ambiguous, nowhere, "7", "", false}},
	{"params a string", `{"id":7,"method":"tools/call","params":"pay"}`, verdict{mcp.Ambiguous, nowhere, "7", "", false}},
	{"name absent", call(`"arguments":{}`), verdict{mcp.Ambiguous, nowhere, "7", "", false}},
	{"name null", call(`"name":null`), verdict{mcp.Ambiguous, nowhere, "7", "", false}},
	{"name a number", call(`"name":7`), verdict{mcp.Ambiguous, nowhere, "7", "", false}},
	{"name a list", call(`"name":["pay"]`), verdict{mcp.Ambiguous, nowhere, "7", "", false}},
	{"name an object", call(`"name":{"name":"pay"}`), verdict{mcp.Ambiguous, nowhere, "7", "", false}},
	{"arguments a list", argued(`[0]`), verdict{mcp.Ambiguous, nowhere, "7", "", false}},
	{"arguments a list in a list", argued(`[[]]`), verdict{mcp.Ambiguous, nowhere, "7", "", false}},
	{"arguments the empty list of PHP", argued(`[ ]`), verdict{mcp.ToolCall, nowhere, "7", "pay", false}},

	// Half of a surrogate pair alone: what JavaScript makes of an emoji that it cuts.
	{"half a pair in a value", argued(`{"a":"cut \ud83d"}`), verdict{mcp.ToolCall, nowhere, "7", "pay", false}},
	{"half a pair in a value, and a key", argued(`{"a":"cut \ud83d","idempotency_key":"k"}`), verdict{mcp.ToolCall, nowhere, "7", "pay", true}},
	{"half a pair in _meta and the envelope", `{"x":"\udc00","id":7,"method":"tools/call","params":{"name":"pay","_meta":{"a":"\ud800"}}}`, verdict{mcp.ToolCall, nowhere, "7", "pay", false}},
	{"half a pair in a response", `{"id":7,"result":{"text":"\ud83d"}}`, verdict{mcp.Other, nowhere, "7", "", false}},
	{"half a pair in the tool's name", `{"id":7,"params":{"name":"\udc00"},"method":"tools/call"}`, verdict{mcp.Ambiguous, 26, "7", "", false}},
	{"half a pair in the method", `{"id":7,"method":"tools/call\ud800","params":{"name":"pay"}}`, verdict{mcp.Ambiguous, 28, "7", "", false}},
	{"half a pair in the id", `{"id":"\ud800","method":"tools/call","params":{"name":"pay"}}`, verdict{mcp.Ambiguous, 7, "", "", false}},
	{"half a pair in the id of another message", `{"id":"a\ud800","method":"ping"}`, verdict{mcp.Ambiguous, 8, "", "", false}},
	{"half a pair in a key", `{"id":7,"params":{"idempotencyKey":"\ud800","name":"pay"},"method":"tools/call"}`, verdict{mcp.Ambiguous, 36, "7", "", true}},
	{"half a pair in a key's argument", `{"id":7,"params":{"arguments":{"idempotency_key":"k\ud800"},"name":"pay"},"method":"tools/call"}`, verdict{mcp.Ambiguous, 51, "7", "", true}},
	{"half a pair in a method in a batch", `[{"id":1,"METHOD":"tools/call\ud800"}]`, verdict{mcp.Ambiguous, 29, "", "", false}},
	{"half a pair in an id in a batch", `[{"id":"\ud800","method":"ping"}]`, verdict{mcp.Ambiguous, 8, "", "", false}},
	{"arguments a string", argued(`"{}"`), verdict{mcp.Ambiguous, nowhere, "7", "", false}},
	{"arguments a number", argued(`0`), verdict{mcp.Ambiguous, nowhere, "7", "", false}},
	{"arguments false", argued(`false`), verdict{mcp.Ambiguous, nowhere, "7", "", false}},

	// Not tools/call.
	{"another method", `{"id":7,"method":"tools/list","params":{"name":7,"Name":8}}`, verdict{mcp.Other, nowhere, "7", "", false}},
	{"a key source in another method's params", `{"id":7,"method":"tools/list","params":{"idempotencyKey":"k"}}`, verdict{mcp.Other, nowhere, "7", "", false}},
	{"a notification", `{"method":"notifications/initialized"}`, verdict{mcp.Other, nowhere, "", "", false}},
	{"method in another case", `{"id":7,"method":"Tools/Call","params":{"name":"pay"}}`, verdict{mcp.Other, nowhere, "7", "", false}},
	{"method with a space", `{"id":7,"method":"tools/call ","params":{"name":"pay"}}`, verdict{mcp.Other, nowhere, "7", "", false}},
	{"method no string", `{"id":7,"method":["tools/call"],"params":{"name":"pay"}}`, verdict{mcp.Other, nowhere, "7", "", false}},
	{"method deeper", `{"id":7,"message":{"method":"tools/call","params":{"name":"pay"}}}`, verdict{mcp.Other, nowhere, "7", "", false}},
	{"a response", `{"id":"r1","result":{"method":"tools/call"}}`, verdict{mcp.Other, nowhere, `"r1"`, "", false}},
	{"a string", `"tools/call"`, verdict{mcp.Other, nowhere, "", "", false}},
	{"a number", `7`, verdict{mcp.Other, nowhere, "", "", false}},
	{"null", `null`, verdict{mcp.Other, nowhere, "", "", false}},
	{"an empty object", `{}`, verdict{mcp.Other, nowhere, "", "", false}},

	// Batches (case 9).
	{"two calls", "[" + argued(`{}`) + "," + argued(`{}`) + "]", verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"one call after white space", " \n[" + argued(`{}`) + "]", verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"a call behind others", `[null,7,[],{},{"id":1,"method":"tools/list"},` + argued(`{}`) + "]", verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"a call by another case in a batch", `[{"id":1,"METHOD":"tools/call"}]`, verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"a call beside another method in a batch", `[{"id":1,"method":"tools/list","Method":"tools/call"}]`, verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"a call without an id in a batch", `[{"method":"tools/call"}]`, verdict{mcp.Ambiguous, nowhere, "", "", false}},
	{"a keyed call in a batch", "[" + call(`"name":"pay","idempotencyKey":"k"`) + "]", verdict{mcp.Ambiguous, nowhere, "", "", true}},
	{"a keyed call in a batch behind one that is not", "[" + argued(`{}`) + "," + call(`"name":"pay","idempotencyKey":"k"`) + "]", verdict{mcp.Ambiguous, nowhere, "", "", true}},
	{"a batch that calls no tool", `[{"id":1,"method":"tools/list","params":{"idempotencyKey":"k"}},{"result":{"method":"tools/call"},"id":2}]`, verdict{mcp.Other, nowhere, "", "", false}},
	{"an empty batch", `[]`, verdict{mcp.Other, nowhere, "", "", false}},
}

func TestRequest(t *testing.T) {
	for _, c := range requests {
		t.Run(c.name, func(t *testing.T) {
			r := read(c.body)
			if got := verdictOf(r); got != c.want {
				t.Errorf("%s\n got %+v\nwant %+v", c.body, got, c.want)
			}
			if r.Kind == mcp.Ambiguous != (r.Defect != "") {
				t.Errorf("%s: kind %d with defect %q", c.body, r.Kind, r.Defect)
			}
			if len(r.ID) == 0 && r.ID != nil {
				t.Errorf("%s: an empty id that is not nil", c.body)
			}
		})
	}
}

// ambiguous are bodies that the strict reader refuses, each with a marker: the byte
// behind it is the offset that the refusal must name.
var ambiguous = []struct{ name, body, before string }{
	{"byte order mark", "\xEF\xBB\xBF" + argued(`{}`), ""},
	{"nothing", "", ""},
	{"white space only", " \n", " \n"},
	{"cut short", `{"id":7,"method":"tools/call","params":{"name":"pay"}`, `"pay"}`},
	{"text behind", argued(`{}`) + ` x`, `}}} `},
	{"two values", argued(`{}`) + argued(`{}`), `{}}}`},
	{"comma before the end", argued(`{"a":1,}`), `1,`},
	{"comment", argued(`{/**/}`), `"arguments":{`},
	{"single quotes", argued(`{'a':1}`), `"arguments":{`},
	{"NaN", argued(`{"a":NaN}`), `"a":`},
	{"leading zero", argued(`{"a":01}`), `"a":0`},
	{"control character", argued("{\"a\":\"\n\"}"), `"a":"`},
	// Case 25.
	{"surrogate in a name", argued(`{"\ud800":1}`), `"arguments":{"`},
	{"raw 0xFF", argued("{\"a\":\"\xff\"}"), `"a":"`},
	{"overlong UTF-8", argued("{\"a\":\"\xc0\xaf\"}"), `"a":"`},
	{"surrogate in UTF-8", argued("{\"a\":\"\xed\xa0\x80\"}"), `"a":"`},
	// Case 26. The id comes first in all of them, and is the caller's.
	{"duplicate in the envelope", `{"id":7,"method":"tools/list","method":"tools/call","params":{"name":"pay"}}`, `"tools/list",`},
	{"duplicate id", `{"id":7,"id":8,"method":"tools/call","params":{"name":"pay"}}`, `7,`},
	{"duplicate params", `{"id":7,"method":"tools/call","params":{"name":"a"},"params":{"name":"b"}}`, `"a"},`},
	{"duplicate name", call(`"name":"a","name":"b"`), `"a",`},
	{"duplicate arguments", call(`"name":"a","arguments":{},"arguments":{"b":1}`), `"arguments":{},`},
	{"duplicate in arguments", argued(`{"a":1,"a":1}`), `1,`},
	{"duplicate deep inside", argued(`{"x":[[{"a":{"y":0,"z":1,"y":2}}]]}`), `1,`},
	{"duplicate by an escape", argued(`{"a":1,"\u0061":2}`), `1,`},
	{"duplicate by two escapes", argued(`{"\u002F":1,"\/":2}`), `1,`},
	{"duplicate in _meta", call(`"name":"a","_meta":{"t":1,"t":2}`), `1,`},
	// Case 27: the first container that is too deep.
	{"depth 129", argued(`{"a":` + nest(126) + `}`), `"a":` + strings.Repeat("[", 125)},
	{"depth 1,000", argued(`{"a":` + nest(1_000) + `}`), `"a":` + strings.Repeat("[", 125)},
	{"depth 10,000", argued(`{"a":` + nest(10_000) + `}`), `"a":` + strings.Repeat("[", 125)},
	{"depth 500,000", argued(`{"a":` + nest(500_000) + `}`), `"a":` + strings.Repeat("[", 125)},
	{"depth of objects", argued(strings.Repeat(`{"a":`, 300_000)), `"arguments":` + strings.Repeat(`{"a":`, 126)},
}

func TestRequestThatIsNotStrict(t *testing.T) {
	for _, c := range ambiguous {
		t.Run(c.name, func(t *testing.T) {
			r := read(c.body)
			at := strings.Index(c.body, c.before) + len(c.before)
			if r.Kind != mcp.Ambiguous || r.Offset != at {
				t.Errorf("kind %d at byte %d, want Ambiguous at byte %d", r.Kind, r.Offset, at)
			}
			if id := strings.HasPrefix(c.body, "{"); id && string(r.ID) != "7" || !id && r.ID != nil {
				t.Errorf("id %q", r.ID)
			}
			if r.Keyed || r.Name != nil {
				t.Errorf("keyed %v, name %q", r.Keyed, r.Name)
			}
		})
	}
}

// The id of a broken body counts when it was read whole before the defect.
func TestIDOfBrokenBody(t *testing.T) {
	for _, c := range []struct{ body, id string }{
		{`{"id":7,!`, "7"},
		{`{"id":7 !`, "7"},
		{`{"id":7`, ""},
		{`{"id":-`, ""},
		{`{"id":"a"`, `"a"`},
		{`{"id":"a`, ""},
		{`{"id":"a\u00`, ""},
		{`{"id":nul`, ""},
		{`{"id":[7`, ""},
		{`{"id":7.0,!`, ""},
		{`{"a":1,"a":2,"id":7}`, ""},
		{`{"id":7,"a":1,"a":2}`, "7"},
		{`{!,"id":7}`, ""},
		{`[{"id":7,!`, ""},
		{`{"params":{"id":7,!`, ""},
	} {
		if got := string(read(c.body).ID); got != c.id {
			t.Errorf("%s: id %q, want %q", c.body, got, c.id)
		}
	}
}

// A Request is reused: what it says of a body must not depend on those before.
func TestRequestForgets(t *testing.T) {
	var bodies []string
	for _, c := range requests {
		bodies = append(bodies, c.body)
	}
	for _, c := range ambiguous {
		if len(c.body) < 10_000 {
			bodies = append(bodies, c.body)
		}
	}
	for _, c := range keys {
		bodies = append(bodies, c.body)
	}
	order := rand.New(rand.NewPCG(1, 1))
	var reused mcp.Request
	for range 20 {
		for _, i := range order.Perm(len(bodies)) {
			reused.Read([]byte(bodies[i]), pointers)
			fresh := read(bodies[i])
			if verdictOf(&reused) != verdictOf(fresh) || reused.Defect != fresh.Defect {
				t.Fatalf("%s\nreused %+v %q\n fresh %+v %q", bodies[i], verdictOf(&reused), reused.Defect, verdictOf(fresh), fresh.Defect)
			}
			rk, rok := reused.Key()
			fk, fok := fresh.Key()
			if !bytes.Equal(rk, fk) || rok != fok {
				t.Fatalf("%s: key %q %v reused, %q %v fresh", bodies[i], rk, rok, fk, fok)
			}
			if !bytes.Equal(reused.State(nil), fresh.State(nil)) {
				t.Fatalf("%s: state %q reused, %q fresh", bodies[i], reused.State(nil), fresh.State(nil))
			}
		}
	}
}

// A refusal's text goes to whoever asked and into logs: it must contain nothing of the
// body, not even of a name.
func TestDefectQuotesNothing(t *testing.T) {
	const secret = "s3cr3t"
	for _, c := range requests {
		for _, old := range []string{"pay", "7", "k", "tools/list", "x"} {
			r := read(strings.ReplaceAll(c.body, old, secret))
			if strings.Contains(r.Defect, secret) {
				t.Errorf("%s: %q", c.body, r.Defect)
			}
		}
	}
}

// State is what makes each leg of a multi-round trip a call of its own (case 42).
func TestState(t *testing.T) {
	for _, c := range []struct{ params, want string }{
		{`"name":"pay"`, ""},
		{`"name":"pay","requestState":null`, ""},
		{`"name":"pay","requestState":""`, `""`},
		{`"name":"pay","requestState":"leg-1"`, `"leg-1"`},
		{`"name":"pay","requestState":"l\u0065g-1"`, `"leg-1"`},
		{`"name":"pay","requestState":{"b":1.0,"a":2}`, `{"a":2,"b":1}`},
		{`"name":"pay","arguments":{"requestState":"leg-1"}`, ""},
		{`"name":"pay","_meta":{"requestState":"leg-1"}`, ""},
	} {
		if got := string(read(call(c.params)).State([]byte("<"))); got != "<"+c.want {
			t.Errorf("%s: %s, want <%s", c.params, got, c.want)
		}
	}
	if got := read(`{"id":7,"method":"tools/list","params":{"requestState":"leg-1"}}`).State(nil); got != nil {
		t.Errorf("a state %s where no tool is called", got)
	}
}

// A long body is read as far as a worker's memory allows, however many values it has.
func TestTooManyValues(t *testing.T) {
	body := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"idempotencyKey":"k","name":"charge","arguments":{"a":[0` +
		strings.Repeat(",0", 2<<20) + `]}}}`)
	var r mcp.Request
	r.Read(body, []string{"/idempotencyKey"})
	if r.Kind != mcp.Ambiguous || r.Defect != "a body of too many values" || string(r.ID) != "7" || !r.Keyed {
		t.Errorf("found kind %d, %q at %d, id %s, keyed %v", r.Kind, r.Defect, r.Offset, r.ID, r.Keyed)
	}
	body = []byte(strings.Replace(string(body), strings.Repeat(",0", 1000), "", 1))
	if r.Read(body, nil); r.Kind != mcp.ToolCall {
		t.Errorf("one within the bound: found kind %d, %q at %d", r.Kind, r.Defect, r.Offset)
	}
}
