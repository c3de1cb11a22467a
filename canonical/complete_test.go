package canonical_test

import (
	"testing"

	"github.com/callonce/callonce/canonical"
)

// TestCompleteBeforeDefect looks for one pointer in refused texts. want is what stands
// there and is complete; "" if nothing is.
func TestCompleteBeforeDefect(t *testing.T) {
	const key = "/params/idempotencyKey"
	for _, c := range []struct{ text, pointer, want string }{
		{`{"params":{"idempotencyKey":"k1","\ud800":0}}`, key, `"k1"`},
		{`{"params":{"idempotencyKey":"k1"`, key, `"k1"`},
		{`{"params":{"idempotencyKey":"k1`, key, ``},
		{`{"params":{"idempotencyKey":"k1\u00"}}`, key, ``},
		{`{"params":{"idempotencyKey":`, key, ``},
		{`{"params":{"idempotencyKey"`, key, ``},
		{`{"params":{"\ud800":0,"idempotencyKey":"k1"}}`, key, ``},
		{`{"params":{"idempotencyKey":"k1"},"params":{"idempotencyKey":"k2"}}`, key, `"k1"`},
		{`{"x":1,"x":2,"params":{"idempotencyKey":"k1"}}`, key, ``},
		{`{"params":{"x":1,"idempotencyKey":"k1","x":1}}`, key, `"k1"`},
		{`{"params":{"x":1,"x":2,"idempotencyKey":"k1"}}`, key, ``},
		{`{"params":{"idempotencyKey":"k1","idempotencyKey":"k2"}}`, key, `"k1"`},
		{`{"params":{"idempotencyKey":"k1"}} {`, key, `"k1"`},
		{`{"params":{"idempotencyKey":"k1"}} {`, "/params", `{"idempotencyKey":"k1"}`},
		{`{"params":{"idempotencyKey":"k1"}} {`, "", `{"params":{"idempotencyKey":"k1"}}`},
		{`{"params":{"idempotencyKey":"k1"},,`, "/params", `{"idempotencyKey":"k1"}`},
		{`{"params":{"idempotencyKey":"k1"},,`, "", ``},
		{`{"id":12`, "/id", ``},
		{`{"id":12x`, "/id", ``},
		{`{"id":12 x`, "/id", `12`},
		{`{"id":12,`, "/id", `12`},
		{`{"id":null`, "/id", ``},
		{`{"id":nullx`, "/id", ``},
		{`{"id":null x`, "/id", `null`},
		{`{"id":"a"x`, "/id", `"a"`},
		{`[[1],[2`, "/0", `[1]`},
		{`[[1],[2`, "/1", ``},
		{`[[1],[2`, "/1/0", ``},
		{`[[1],[2 `, "/1/0", `2`},
		{`[[1]x`, "/0", `[1]`},
	} {
		var doc canonical.Doc
		if doc.Parse([]byte(c.text)) == nil {
			t.Errorf("%s accepted", c.text)
			continue
		}
		n := doc.Pointer(doc.Root(), c.pointer)
		got := ""
		if doc.Complete(n) {
			got = string(doc.Raw(n))
		}
		if got != c.want {
			t.Errorf("%s: %s is %q, want %q", c.text, c.pointer, got, c.want)
		}
	}
}

// TestNothingRemains has texts in which no value begins, after one in which many do.
func TestNothingRemains(t *testing.T) {
	for _, text := range []string{"", " ", "x", "\ufeff{}", `"abc`, "tru", "-"} {
		var doc canonical.Doc
		if err := doc.Parse([]byte(`{"a":["b",1,2,3]}`)); err != nil {
			t.Fatal(err)
		}
		if doc.Parse([]byte(text)) == nil {
			t.Errorf("%q accepted", text)
		}
		if root := doc.Root(); root != canonical.NoNode || doc.Kind(0) != canonical.Invalid {
			t.Errorf("%q: root %d, %v", text, root, doc.Kind(0))
		}
	}
}
