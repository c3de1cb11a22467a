package mcp_test

import (
	"bytes"
	"testing"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

// The key comes into the body at its place, and nothing else of the body changes.
func TestPlaced(t *testing.T) {
	args := func(name string) mcp.Place { return mcp.Place{Parent: "arguments", Name: name} }
	meta := func(name string) mcp.Place { return mcp.Place{Parent: "_meta", Name: name} }
	pointers := []string{"/arguments/key", "/arguments/deep/key", "/_meta/key"}
	const head = `{"jsonrpc":"2.0", "id":1,"method":"tools/call","params":{`
	for _, c := range []struct {
		params string
		strip  bool
		place  mcp.Place
		key    string
		want   string // "" = a defect
	}{
		{`"name":"a","arguments":{"x": 1.0 }`, false, args("id"), "k", `"name":"a","arguments":{"id":"k","x": 1.0 }`},
		{`"name":"a","arguments":{ }`, false, args("id"), "k", `"name":"a","arguments":{"id":"k" }`},
		{`"name":"a","arguments":null`, false, args("id"), "k", `"name":"a","arguments":{"id":"k"}`},
		{`"name":"a","arguments":[ ]`, false, args("id"), "k", `"name":"a","arguments":{"id":"k"}`},
		{` "name":"a"`, false, args("id"), "k", `"arguments":{"id":"k"}, "name":"a"`},
		{`"name":"a","arguments":{"id":"mine","x":1}`, false, args("id"), "k", `"name":"a","arguments":{"id":"k","x":1}`},
		{`"name":"a","arguments":{"x":1,"id":{"a":[1,2]}}`, false, args("id"), "k", `"name":"a","arguments":{"x":1,"id":"k"}`},
		{`"name":"a","arguments":{"id":"\u006b"}`, false, args("id"), "k", `"name":"a","arguments":{"id":"\u006b"}`},
		{`"name":"a","arguments":{"x":1}`, false, args(`q"\`), "a\"\n\\é", `"name":"a","arguments":{"q\"\\":"a\"\n\\é","x":1}`},

		// With strip the key goes, also where it is all that there is; at the place it stays.
		{`"name":"a","arguments":{"key":"k"}`, true, args("id"), "k", `"name":"a","arguments":{"id":"k"}`},
		{`"name":"a","arguments":{"key":"k","x":1}`, true, args("id"), "k", `"name":"a","arguments":{"id":"k","x":1}`},
		{`"name":"a","arguments":{"x":1,"key":"k"}`, true, args("id"), "k", `"name":"a","arguments":{"id":"k","x":1}`},
		{`"name":"a","arguments":{"deep":{"key":"k"},"key":"k"}`, true, args("id"), "k", `"name":"a","arguments":{"id":"k","deep":{}}`},
		{`"name":"a","arguments":{"deep":{"key":"k"},"key":"k"}`, true, args("deep"), "k", `"name":"a","arguments":{"deep":"k"}`},
		{`"name":"a","arguments":{"key":"k","x":1}`, true, args("key"), "k", `"name":"a","arguments":{"key":"k","x":1}`},
		{`"name":"a","arguments":{"key":"","x":1}`, true, args("key"), "k", `"name":"a","arguments":{"key":"k","x":1}`},
		{`"name":"a","arguments":{"key":null}`, true, args("key"), "k", `"name":"a","arguments":{"key":"k"}`},
		{`"name":"a","arguments":{"key":"k","x":1}`, true, meta("id"), "k", `"_meta":{"id":"k"},"name":"a","arguments":{"x":1}`},

		{`"name":"a","_meta":{"progressToken":7}`, false, meta("e.com/id"), "k", `"name":"a","_meta":{"e.com/id":"k","progressToken":7}`},
		{`"name":"a","_meta":null`, false, meta("id"), "k", `"name":"a","_meta":{"id":"k"}`},
		{`"name":"a","_meta":{"key":"k"}`, true, meta("key"), "k", `"name":"a","_meta":{"key":"k"}`},
		{`"name":"a","_meta":[]`, false, meta("id"), "k", ``},
		{`"name":"a","_meta":"x"`, false, meta("id"), "k", ``},
		{`"name":"a","_Meta":{"id":"other"}`, false, meta("id"), "k", ``},

		// Another that some servers would take.
		{`"name":"a","arguments":{"ID":"other"}`, false, args("id"), "k", ``},
		{`"name":"a","arguments":{"id":"k","Id":"other"}`, false, args("id"), "k", ``},
		{`"name":"a","arguments":{"É":"other"}`, false, args("é"), "k", ``},
	} {
		body := []byte(head + c.params + "}}\n")
		var r mcp.Request
		r.Read(body, pointers)
		if r.Kind != mcp.ToolCall {
			t.Fatalf("%s is no call: %s", body, r.Defect)
		}
		before := r.AppendIntent(nil, mcp.Shape{})
		out, defect := r.AppendEdited([]byte("kept:"), body, mcp.Edit{Strip: c.strip, Place: c.place, Key: []byte(c.key)})
		if c.want == "" {
			if defect == "" || string(out) != "kept:" {
				t.Errorf("%s: expected a defect, found %q and %s", c.params, defect, out)
			}
			continue
		}
		if want := "kept:" + head + c.want + "}}\n"; defect != "" || string(out) != want {
			t.Errorf("%s, %+v:\n got %s (%s)\nwant %s", c.params, c.place, out, defect, want)
			continue
		}
		// A proxy behind this one reads the same call, but for the place.
		if c.place.Parent == "_meta" {
			var again mcp.Request
			again.Read(out[len("kept:"):], pointers)
			if got := again.AppendIntent(nil, mcp.Shape{}); !bytes.Equal(got, before) {
				t.Errorf("%s: the call became another: %s", c.params, got)
			}
		}
	}
}
