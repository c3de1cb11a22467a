package mcp_test

import (
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

// prefixes are bodies too long to be read, cut at every byte: from the end of shown
// on, and not before, it is known that they call no tool ("" = it never is).
var prefixes = []struct{ name, body, shown string }{
	{"another method", `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"x"}}`, `"resources/read"`},
	{"another method, last", `{"id":7,"params":{"uri":"x"},"method":"resources/read"}`, `"resources/read"`},
	{"another method in escapes", `{"id":7,"m\u0065thod":"tools\/lis\u0074","params":{}}`, `"tools\/lis\u0074"`},
	{"a method that is an object", `{"id":7,"method":{"a":"tools/call"},"params":{}}`, `"tools/call"}`},
	{"a method that is a number", `{"id":7,"method":12 ,"params":{}}`, `12 `},
	{"result", `{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":"x"}]}}`, `"result":{`},
	{"result a list", `{"id":7,"result":["tools/call"]}`, `"result":[`},
	{"result a string", `{"id":7,"result":"x"}`, `"x"`},
	{"error", `{"id":7,"error":{"code":-1,"message":"x"}}`, `"error":{`},
	{"result, then a method", `{"result":{},"method":"tools/list"}`, `"result":{`},

	{"a call", argued(`{"a":"x"}`), ""},
	{"a call in escapes", `{"id":7,"method":"tools\u002fcall","params":{"name":"pay"}}`, ""},
	{"a call, method last", `{"id":7,"params":{"name":"pay"},"method":"tools/call"}`, ""},
	{"a call with result and error inside", call(`"name":"pay","result":{},"error":{}`), ""},
	{"a call, then a result", `{"id":7,"method":"tools/call","params":{},"result":{}}`, ""},
	{"a method's name deeper", `{"id":7,"params":{"method":"tools/list","result":{}}}`, ""},
	{"no method", `{"id":7,"params":{"name":"pay"}}`, ""},
	{"a batch", `[{"id":7,"method":"tools/list"},{"id":8,"result":{}}]`, ""},
	{"a string", `"method"`, ""},
	{"a byte order mark", "\xEF\xBB\xBF" + `{"id":7,"method":"tools/list","params":{}}`, ""},
	{"two methods, the second a call", `{"method":"tools/call","method":"tools/list"}`, ""},
	{"half of a surrogate pair in the method", `{"method":"tools/call\ud83d","id":7}`, ""},
	{"a case variant before", `{"Method":"tools/call","method":"tools/list"}`, ""},
}

func TestCallsNoTool(t *testing.T) {
	for _, c := range prefixes {
		t.Run(c.name, func(t *testing.T) {
			from := len(c.body) + 1
			if c.shown != "" {
				from = strings.Index(c.body, c.shown) + len(c.shown)
			}
			var r mcp.Request
			for n := range len(c.body) + 1 {
				if got := r.CallsNoTool([]byte(c.body[:n])); got != (n >= from) {
					t.Fatalf("%s: %v, want %v", c.body[:n], got, n >= from)
				}
			}
		})
	}
}

// What comes later can take it back: a server that takes the last of two members, or
// that does not mind case, would run a tool.
func TestCallsNoToolTakenBack(t *testing.T) {
	for _, c := range []struct{ body, shown, until string }{
		{`{"method":"tools/list","method":"tools/call","params":{}}`, `"tools/list"`, `"method":"tools/call"`},
		{`{"method":"tools/list","\u006dethod":"tools/call","params":{}}`, `"tools/list"`, `"\u006dethod":"tools/call"`},
		{`{"method":"tools/list","Method":"tools/call","params":{}}`, `"tools/list"`, `"Method":"tools/call"`},
		{`{"result":{},"method":"tools/call","params":{}}`, `"result":{`, `"method":"tools/call"`},
		{`{"error":{},"METHOD":"tools/call","params":{}}`, `"error":{`, `"METHOD":"tools/call"`},
	} {
		shown := strings.Index(c.body, c.shown) + len(c.shown)
		until := strings.Index(c.body, c.until) + len(c.until)
		var r mcp.Request
		for n := range len(c.body) + 1 {
			got := r.CallsNoTool([]byte(c.body[:n]))
			if n < shown && got || n >= until && got {
				t.Errorf("%s: said to call no tool", c.body[:n])
			}
		}
	}
}

// A body whose prefix was looked at can be read afterwards as if it had not been, and
// the other way round.
func TestCallsNoToolLeavesNothing(t *testing.T) {
	var r mcp.Request
	for _, c := range keys {
		r.CallsNoTool([]byte(c.body[:len(c.body)/2]))
		r.Read([]byte(c.body), pointers)
		if got, want := verdictOf(&r), verdictOf(read(c.body)); got != want {
			t.Errorf("%s: %+v, want %+v", c.body, got, want)
		}
		if r.CallsNoTool([]byte(c.body)) {
			t.Errorf("%s: said to call no tool", c.body)
		}
		if key, ok := r.Key(); key != nil || !ok || r.Keyed || r.Kind != mcp.Other || r.ID != nil {
			t.Errorf("%s: after a look at a prefix: key %q %v, %+v", c.body, key, ok, verdictOf(&r))
		}
	}
}
