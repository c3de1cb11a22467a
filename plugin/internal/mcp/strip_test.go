package mcp_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// checkStripped wants of body, of which r is the reading, what strip promises: the same
// call without its keys in arguments, and out of the text nothing gone but these
// members with a comma each.
func checkStripped(t *testing.T, r *mcp.Request, body []byte, at []string) {
	t.Helper()
	if _, ok := r.Key(); !ok {
		return // refused, and never forwarded
	}
	cut := r.KeyInArguments()
	stripped := r.AppendStripped(nil, body)
	if !cut && !bytes.Equal(stripped, body) {
		t.Fatalf("%q without a key in arguments became %q", body, stripped)
	}
	intent := r.AppendIntent(nil, mcp.Shape{})
	var inside []string
	for _, pointer := range at {
		if strings.HasPrefix(pointer, "/arguments/") {
			inside = append(inside, pointer)
		}
	}
	var again mcp.Request
	again.Read(stripped, inside)
	if again.Kind != mcp.ToolCall || again.KeyInArguments() && !listPointer(inside) {
		t.Fatalf("%q became %q: kind %d, key still there: %v", body, stripped, again.Kind, again.KeyInArguments())
	}
	again.Read(stripped, outside(at))
	if got := again.AppendIntent(nil, mcp.Shape{}); !bytes.Equal(got, intent) {
		t.Fatalf("%q became %q\n got %s\nwant %s", body, stripped, got, intent)
	}
	rest := body
	for i, c := range stripped {
		k := bytes.IndexByte(rest, c)
		if k < 0 {
			t.Fatalf("%q became %q: byte %d was not there", body, stripped, i)
		}
		rest = rest[k+1:]
	}
}

// listPointer reports whether a key source may be an element of a list, whose neighbour takes
// its place when it is cut out.
func listPointer(at []string) bool {
	return strings.ContainsAny(strings.Join(at, ""), "0123456789")
}

func outside(at []string) (out []string) {
	for _, pointer := range at {
		if !strings.HasPrefix(pointer, "/arguments/") {
			out = append(out, pointer)
		}
	}
	return out
}

// Arguments of every make, with keys everywhere among the members.
func TestStripAtRandom(t *testing.T) {
	at := []string{"/arguments/idempotency_key", "/arguments/k2", "/arguments/meta/k", "/idempotencyKey"}
	for seed := range uint64(4000) {
		a := author{rand.New(rand.NewPCG(seed, 0))}
		arguments := a.object(2)
		arguments = drop(arguments, "idempotency_key")
		key := []any{"k", nil}
		for _, extra := range []member{{"idempotency_key", key[a.IntN(2)]}, {"k2", key[a.IntN(2)]}, {"meta", append(a.object(1), member{"k", key[a.IntN(2)]})}, {"z", a.value(1)}} {
			if a.IntN(2) == 0 {
				i := a.IntN(len(arguments) + 1)
				arguments = append(arguments[:i:i], append(object{extra}, arguments[i:]...)...)
			}
		}
		body := []byte(a.spell(object{{"id", "x"}, {"method", "tools/call"}, {"params", object{{"name", "pay"}, {"arguments", arguments}}}}))
		var r mcp.Request
		r.Read(body, at)
		if r.Kind != mcp.ToolCall {
			t.Fatalf("seed %d: %s: %s", seed, body, r.Defect)
		}
		checkStripped(t, &r, body, at)
		want, _ := canonical.Append(nil, []byte(a.spell(stripped(arguments))))
		got := r.AppendStripped(nil, body)
		var doc canonical.Doc
		if err := doc.Parse(got); err != nil {
			t.Fatalf("seed %d: %s became %s: %v", seed, body, got, err)
		}
		if form := doc.Append(nil, doc.Pointer(doc.Root(), "/params/arguments")); !bytes.Equal(form, want) {
			t.Fatalf("seed %d: %s became %s\n got %s\nwant %s", seed, body, got, form, want)
		}
	}
}

func drop(o object, names ...string) (kept object) {
	kept = object{}
	for _, m := range o {
		if !strings.Contains("\x00"+strings.Join(names, "\x00")+"\x00", "\x00"+m.name+"\x00") {
			kept = append(kept, m)
		}
	}
	return kept
}

func stripped(arguments object) object {
	out := drop(arguments, "idempotency_key", "k2")
	for i, m := range out {
		if meta, ok := m.value.(object); ok && m.name == "meta" {
			out[i].value = drop(meta, "k")
		}
	}
	return out
}

// Places that an operator lists twice, or one inside another, are cut out once.
func TestStripOfPlacesThatOverlap(t *testing.T) {
	for _, c := range []struct {
		at       []string
		in, want string
	}{
		{[]string{"/arguments/k", "/arguments/k"}, `{"a":1,"k":"x","b":2}`, `{"a":1,"b":2}`},
		{[]string{"/arguments/k", "/arguments/k"}, `{"k":"x"}`, `{}`},
		{[]string{"/arguments/m", "/arguments/m/k"}, `{"m":{"k":"x"},"b":2}`, `{"b":2}`},
		{[]string{"/arguments/m/k", "/arguments/m"}, `{"b":2,"m":{"k":"x","c":3}}`, `{"b":2}`},
		{[]string{"/arguments/l/0", "/arguments/l/1"}, `{"l":["k","k","c"]}`, `{"l":["c"]}`},
	} {
		body := []byte(argued(c.in))
		var r mcp.Request
		r.Read(body, c.at)
		if got := string(r.AppendStripped(nil, body)); got != argued(c.want) {
			t.Errorf("%v: %s became %s", c.at, c.in, got)
		}
	}
}
