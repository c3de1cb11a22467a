package canonical_test

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/callonce/callonce/canonical"
)

// TestPointerOfRFC6901 has the examples of RFC 6901 section 5, and what its sections 3
// and 4 rule out.
func TestPointerOfRFC6901(t *testing.T) {
	const text = `{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,
		"~1":"tilde one","o":{"p":{"q":null}},"ten":[0,1,2,3,4,5,6,7,8,9,10],"0":"zero","-":"dash","é":"accent"}`
	var doc canonical.Doc
	if err := doc.Parse([]byte(text)); err != nil {
		t.Fatal(err)
	}
	for pointer, want := range map[string]string{
		"/foo": `["bar","baz"]`, "/foo/0": `"bar"`, "/foo/1": `"baz"`, "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3",
		"/g|h": "4", `/i\j`: "5", `/k"l`: "6", "/ ": "7", "/m~0n": "8",
		"/~01": `"tilde one"`, "/o/p/q": "null", "/o/p": `{"q":null}`, "/ten/10": "10", "/ten/9": "9", "/0": `"zero"`,
		"/-": `"dash"`, "/é": `"accent"`,
	} {
		if got := doc.Raw(doc.Pointer(doc.Root(), pointer)); string(got) != want {
			t.Errorf("%q: %q, want %q", pointer, got, want)
		}
	}
	for _, pointer := range []string{"foo", "xfoo", "x/foo", "~1foo", "/foo/", "/foo/2", "/foo/-", "/foo/00", "/foo/01", "/foo/+1", "/foo/-1", "/foo/1x",
		"/foo/ 1", "/foo/18446744073709551616", "/foo/4294967296", "/foo/99999999999999999999999999", "/foo/0/0", "/foo/bar", "/m~n", "/m~",
		"/m~2n", "/m~0", "/m~0n~", "/~1", "/a/b", "/a~1", "/a~1bc", "/o/p/q/r", "//", "/FOO", "/foo#", "#/foo"} {
		if n := doc.Pointer(doc.Root(), pointer); n != canonical.NoNode {
			t.Errorf("%q led to %q", pointer, doc.Raw(n))
		}
	}
	if doc.Pointer(doc.Root(), "") != doc.Root() {
		t.Error(`"" is not the whole value`)
	}
	inner := doc.Pointer(doc.Root(), "/o")
	if n := doc.Pointer(inner, "/p/q"); doc.Kind(n) != canonical.Null {
		t.Errorf("relative pointer led to %q", doc.Raw(n))
	}
	if doc.Pointer(canonical.NoNode, "") != canonical.NoNode || doc.Pointer(1<<30, "") != canonical.NoNode {
		t.Error("a pointer from nowhere leads somewhere")
	}
}

func TestPointerFindsEveryNode(t *testing.T) {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	rapid.Check(t, func(t *rapid.T) {
		text := spellText(anyRand.Draw(t, "spelling"), anyModel(anyDecimal, 4).Draw(t, "value"))
		var doc canonical.Doc
		if err := doc.Parse(text); err != nil {
			t.Fatal(err)
		}
		var walk func(n canonical.Node, pointer string)
		walk = func(n canonical.Node, pointer string) {
			if got := doc.Pointer(doc.Root(), pointer); got != n {
				t.Fatalf("%q in %q led to node %d, want %d", pointer, text, got, n)
			}
			k := 0
			for c := doc.First(n); c != canonical.NoNode; c = doc.Next(c) {
				token := strconv.Itoa(k)
				if doc.Kind(n) == canonical.Object {
					token = escape.Replace(string(doc.Name(c)))
				}
				walk(c, pointer+"/"+token)
				k++
			}
		}
		walk(doc.Root(), "")
	})
}

// TestNodesThatAreNot asks every method about nodes that do not exist.
func TestNodesThatAreNot(t *testing.T) {
	var doc canonical.Doc
	check := func(n canonical.Node) {
		t.Helper()
		start, end := doc.Span(n)
		memberStart, memberEnd := doc.MemberSpan(n)
		if doc.Kind(n) != canonical.Invalid || start != 0 || end != 0 || memberStart != 0 || memberEnd != 0 ||
			doc.Raw(n) != nil || doc.Text(n) != nil || doc.Name(n) != nil || doc.Sorted(n) != nil ||
			doc.Parent(n) != canonical.NoNode || doc.First(n) != canonical.NoNode || doc.Next(n) != canonical.NoNode ||
			doc.Member(n, "") != canonical.NoNode || doc.Pointer(n, "/a") != canonical.NoNode || doc.Complete(n) ||
			len(doc.Append(nil, n)) != 0 {
			t.Errorf("node %d is there", n)
		}
		doc.Omit(n)
		doc.Replace(n, []byte("1"))
	}
	check(doc.Root())
	check(0)
	if err := doc.Parse([]byte(`{"a":[1,"x"]}`)); err != nil {
		t.Fatal(err)
	}
	// Entry 1 is the name "a", which is no value.
	for _, n := range []canonical.Node{canonical.NoNode, -2, 1, 5, 6, 1 << 30, -1 << 31} {
		check(n)
	}
	if got := string(doc.Append(nil, doc.Root())); got != `{"a":[1,"x"]}` {
		t.Errorf("marks on nodes that are not there left %s", got)
	}
	for n, kind := range map[canonical.Node]string{0: "object", 2: "array", 3: "number", 4: "string", 1: "invalid"} {
		if got := doc.Kind(n).String(); got != kind {
			t.Errorf("node %d is %s, want %s", n, got, kind)
		}
	}
	if doc.Text(doc.Root()) != nil || doc.Sorted(2) != nil || doc.Member(2, "0") != canonical.NoNode ||
		doc.First(3) != canonical.NoNode || doc.Name(0) != nil || doc.Next(0) != canonical.NoNode {
		t.Error("a node answered as if it were of another kind")
	}
	doc.Parse([]byte("[null,true,false]"))
	if a, b, c := doc.Kind(1).String(), doc.Kind(2).String(), doc.Kind(3).String(); a != "null" || b != "true" || c != "false" {
		t.Error(a, b, c)
	}
}
