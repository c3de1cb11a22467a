package mcp

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func read(t *testing.T, body string, pointers ...string) *Request {
	t.Helper()
	r := &Request{}
	r.Read([]byte(body), pointers)
	if r.Kind != ToolCall {
		t.Fatalf("no tool call: %s: %s", r.Defect, body)
	}
	return r
}

// What strip cuts out is the key and one comma: every other byte stays.
func TestStripped(t *testing.T) {
	head, tail := `{"jsonrpc": "2.0" ,"id":1, "method":"tools/call","params":{"name":"x","arguments":`, `} }`+"\n"
	for in, want := range map[string]string{
		`{"key":"k"}`:                              `{}`,
		`{ "key" : "k" }`:                          `{  }`,
		`{"key":"k","a":1}`:                        `{"a":1}`,
		`{"key":"k" , "a":1}`:                      `{ "a":1}`,
		`{"a":1,"key":"k"}`:                        `{"a":1}`,
		`{"a":1 , "key":"k" }`:                     `{"a":1  }`,
		`{"a":1,"key":"k","b":"key"}`:              `{"a":1,"b":"key"}`,
		`{"key":null,"a":1}`:                       `{"a":1}`,
		`{"a":1,"key":"k","key2":"k"}`:             `{"a":1}`,
		`{"key":"k","key2":"k"}`:                   `{}`,
		`{"key2":"k","a":{"key":"x"},"key":"k"}`:   `{"a":{"key":"x"}}`,
		`{"meta":{"key":"k"},"a":1}`:               `{"meta":{},"a":1}`,
		`{"\u006bey":"k","a":", \"key\":\"k\""}`:   `{"a":", \"key\":\"k\""}`,
		`{"a":[1,2,{"b":","}],"key":"k,","c":","}`: `{"a":[1,2,{"b":","}],"c":","}`,
	} {
		r := read(t, head+in+tail, "/arguments/key", "/arguments/key2", "/arguments/meta/key", "/idempotencyKey")
		if !r.KeyInArguments() {
			t.Errorf("%s: no key found", in)
		}
		got := string(r.AppendStripped(nil, []byte(head+in+tail)))
		if got != head+want+tail {
			t.Errorf("%s: expected %s, found %s", in, head+want+tail, got)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s: broken JSON: %s", in, got)
		}
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"idempotencyKey":"k","name":"x","arguments":{"a":1}}}`
	r := read(t, body, "/arguments/key", "/idempotencyKey")
	if r.KeyInArguments() || string(r.AppendStripped(nil, []byte(body))) != body {
		t.Error("a key outside arguments was cut out")
	}
}

// Times count by their interval, whatever their spelling; anything else as it is.
func TestRound(t *testing.T) {
	same := func(a, b string) bool {
		sum := func(v string) [32]byte {
			r := read(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"at":`+v+`}}}`)
			f, _ := r.Fingerprint(nil, Shape{Round: []Round{{"/at", 60}, {"/absent", 60}}})
			return f
		}
		return sum(a) == sum(b)
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"120", "179", true},
		{"120", "179.999", true},
		{"119", "120", false},
		{"120", "1.2e2", true},
		{"120", `"1970-01-01T00:02:59Z"`, true},
		{`"2026-11-29T10:00:00Z"`, `"2026-11-29T12:00:59.5+02:00"`, true},
		{`"2026-11-29T10:00:00Z"`, `"2026-11-29T10:01:00Z"`, false},
		{"-1", "-60", true},
		{"-0.5", "-60", true},
		{"0", "-1", false},
		{"1e30", "1e31", false},
		{"1e400", "1e401", false},
		{`"soon"`, `"later"`, false},
		{"null", "0", false},
		{"true", "1", false},
		{"1e-9", "0", true},
	} {
		if got := same(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: expected %v, found %v", c.a, c.b, c.want, got)
		}
	}
}

func TestTakesTasks(t *testing.T) {
	for meta, want := range map[string]bool{
		`{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`:   true,
		`{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":null}}}`: false,
		`{"io.modelcontextprotocol/clientCapabilities":{"extensions":{}}}`:                                     false,
		`{}`: false,
	} {
		r := read(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":`+meta+`}}`)
		if got := r.TakesTasks(); got != want {
			t.Errorf("%s: expected %v", meta, want)
		}
	}
}

func TestMarked(t *testing.T) {
	for in, want := range map[string]string{
		`{"id":1,"result":{}}`:                                         `{"id":1,"result":{"_meta":{"callonce.dev/replayed":true}}}`,
		`{"id":1,"result":{"a":1}}`:                                    `{"id":1,"result":{"_meta":{"callonce.dev/replayed":true},"a":1}}`,
		`{"id":1,"result":{"a":1,"_meta":{"b":2}}}`:                    `{"id":1,"result":{"a":1,"_meta":{"callonce.dev/replayed":true,"b":2}}}`,
		`{"id":1,"result":{"_meta":{}}}`:                               `{"id":1,"result":{"_meta":{"callonce.dev/replayed":true}}}`,
		`{"id":1,"result":{"_meta":7}}`:                                `{"id":1,"result":{"_meta":7}}`,
		`{"id":1,"result":{"_meta":{"callonce.dev/replayed":"mine"}}}`: `{"id":1,"result":{"_meta":{"callonce.dev/replayed":"mine"}}}`,
		`{"id":1,"error":{"code":1}}`:                                  `{"id":1,"error":{"code":1}}`,
	} {
		var r Response
		if got := string(r.AppendMarked(nil, []byte(in))); got != want {
			t.Errorf("%s: expected %s, found %s", in, want, got)
		}
	}
}

// A line for the model stands at the end of the content, if there is a place for it.
func TestMarkedText(t *testing.T) {
	const line = `{"type":"text","text":"This call ran before. This is its first answer again: nothing was done a second time."}`
	for in, want := range map[string]string{
		`{"id":1,"result":{"content":[]}}`: `{"id":1,"result":{"content":[` + line + `]}}`,
		` {"result" : {"a":[1], "content" : [ {"type":"text","text":"]"} ] , "b":2} ,"id":1} `: ` {"result" : {"a":[1], "content" : [ {"type":"text","text":"]"} ,` + line + `] , "b":2} ,"id":1} `,
		`{"id":1,"result":{"content":"text"}}`:                                                 `{"id":1,"result":{"content":"text"}}`,
		`{"id":1,"result":{"structuredContent":{"content":[]}}}`:                               `{"id":1,"result":{"structuredContent":{"content":[]}}}`,
		`{"id":1,"result":{"content":[NaN]}}`:                                                  `{"id":1,"result":{"content":[NaN]}}`,
		`{"id":1,"result":{"content":[],"content":[]}}`:                                        `{"id":1,"result":{"content":[],"content":[]}}`,
		`{"id":1,"result":7}`:                                                                  `{"id":1,"result":7}`,
		`{"id":1,"error":{"code":1}}`:                                                          `{"id":1,"error":{"code":1}}`,
	} {
		var r Response
		if got := string(r.AppendMarkedText(nil, []byte(in))); got != want {
			t.Errorf("%s: expected %s, found %s", in, want, got)
		}
	}
}

func TestResultID(t *testing.T) {
	var r Response
	message := []byte(`{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"id":"ch_1","n":12,"cut":"ch_\ud83d","o":{},"long":"` + strings.Repeat("x", 500) + `"},"x":NaN,"behind":"y"}}`)
	r.Read(message, []byte("1"))
	for ptr, want := range map[string]string{
		"/structuredContent/id": "ch_1", "/structuredContent/n": "12", "/structuredContent/o": "", "/absent": "", "/structuredContent/cut": "", "/x": "", "/behind": "",
		"/structuredContent/long": strings.Repeat("x", 128),
	} {
		if got := r.ResultID(message, ptr, 128); got != want {
			t.Errorf("%s: expected %q, found %q", ptr, want, got)
		}
	}
}

// A refusal as a tool's result carries the same data as the error, and no
// structuredContent.
func TestToolResult(t *testing.T) {
	var asError struct {
		Error struct {
			Message string
			Data    map[string]any
		}
	}
	var asResult struct {
		ID     any
		Result struct {
			ResultType string
			IsError    bool
			Content    []struct{ Type, Text string }
			Meta       map[string]map[string]any `json:"_meta"`
		}
	}
	text := InFlight.AppendToolResult(nil, []byte(`"a"`), "0123456789abcdef", "get_charge", "")
	if err := json.Unmarshal(text, &asResult); err != nil {
		t.Fatal(err, string(text))
	}
	if err := json.Unmarshal(InFlight.AppendError(nil, []byte(`"a"`), "0123456789abcdef", "get_charge", ""), &asError); err != nil {
		t.Fatal(err)
	}
	r := asResult.Result
	if asResult.ID != "a" || r.ResultType != "complete" || !r.IsError || len(r.Content) != 1 || r.Content[0].Text != asError.Error.Message ||
		!reflect.DeepEqual(r.Meta["callonce.dev/refusal"], asError.Error.Data) || strings.Contains(string(text), "structuredContent") {
		t.Errorf("not the contract's shape: %s", text)
	}
}

func TestDialects(t *testing.T) {
	if f := InFlight.In(SEP3182); f.Type != "idempotency_key_in_progress" || f.Also != "idempotency_in_flight" || f.Status != 409 {
		t.Errorf("SEP-3182's name for in flight: %+v", f)
	}
	if f := Conflict.In(SEP3182); f.Type != "idempotency_key_conflict" {
		t.Errorf("SEP-3182's name for a conflict: %+v", f)
	}
	if f := Conflict.In(KeyReused); f.Also != "IDEMPOTENCY_KEY_REUSED" || f.Type != "idempotency_key_conflict" {
		t.Errorf("the name for a reused key: %+v", f)
	}
	if InFlight.Type != "idempotency_in_flight" || Conflict.Also != "" {
		t.Error("a dialect changed the table")
	}
}
