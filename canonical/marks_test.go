package canonical_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/callonce/callonce/canonical"
)

// modelOf is node n without what is omitted, and with canonical texts in place of
// what is replaced.
func modelOf(doc *canonical.Doc, n canonical.Node, omitted map[canonical.Node]bool, replaced map[canonical.Node]model) model {
	if v, ok := replaced[n]; ok {
		return v
	}
	switch doc.Kind(n) {
	case canonical.Array:
		v := array{}
		for c := doc.First(n); c != canonical.NoNode; c = doc.Next(c) {
			if !omitted[c] {
				v = append(v, modelOf(doc, c, omitted, replaced))
			}
		}
		return v
	case canonical.Object:
		v := object{}
		for c := doc.First(n); c != canonical.NoNode; c = doc.Next(c) {
			if !omitted[c] {
				v = append(v, member{string(doc.Name(c)), modelOf(doc, c, omitted, replaced)})
			}
		}
		return v
	case canonical.String:
		return string(doc.Text(n))
	case canonical.Number:
		return decimalOf(string(doc.Raw(n)))
	case canonical.Null:
		return nil
	default:
		return doc.Kind(n) == canonical.True
	}
}

func TestMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := spellText(anyRand.Draw(t, "spelling"), anyModel(anyDecimal, 4).Draw(t, "value"))
		var doc canonical.Doc
		if err := doc.Parse(text); err != nil {
			t.Fatal(err)
		}
		var nodes []canonical.Node
		var walk func(n canonical.Node)
		walk = func(n canonical.Node) {
			nodes = append(nodes, n)
			for c := doc.First(n); c != canonical.NoNode; c = doc.Next(c) {
				walk(c)
			}
		}
		walk(doc.Root())
		for _, n := range nodes {
			if got, want := string(doc.Append(nil, n)), mustForm(t, doc.Raw(n)); got != want {
				t.Fatalf("node %d of %q gave %q, want %q", n, text, got, want)
			}
		}

		omitted, replaced := map[canonical.Node]bool{}, map[canonical.Node]model{}
		for range rapid.IntRange(0, 6).Draw(t, "marks") {
			n := rapid.SampledFrom(nodes).Draw(t, "node")
			if rapid.Bool().Draw(t, "omit") {
				doc.Omit(n)
				omitted[n] = true
				continue
			}
			v := anyModel(anyDecimal, 1).Draw(t, "replacement")
			form := []byte(canonicalOf(v))
			doc.Replace(n, form)
			clear(form)
			replaced[n] = v
		}
		for range 2 {
			for _, n := range append(nodes[:1:1], rapid.SampledFrom(nodes).Draw(t, "asked")) {
				want := canonicalOf(modelOf(&doc, n, omitted, replaced))
				if got := string(doc.Append(nil, n)); got != want {
					t.Fatalf("%q, without %v, with %v: node %d\ngave %q\nwant %q", text, omitted, replaced, n, got, want)
				}
			}
		}
		if err := doc.Parse(text); err != nil {
			t.Fatal(err)
		}
		if got, want := string(doc.Append(nil, doc.Root())), mustForm(t, text); got != want {
			t.Fatalf("marks outlived Parse: %q gave %q", text, got)
		}
	})
}

func TestMarksOneByOne(t *testing.T) {
	const text = `{"b":[1,2,3],"a":{"x":1},"c":"s"}`
	for _, c := range []struct {
		omit, replace []string
		want          string
	}{
		{omit: []string{"/b/1"}, want: `{"a":{"x":1},"b":[1,3],"c":"s"}`},
		{omit: []string{"/b/0", "/b/1", "/b/2"}, want: `{"a":{"x":1},"b":[],"c":"s"}`},
		{omit: []string{"/a/x"}, want: `{"a":{},"b":[1,2,3],"c":"s"}`},
		{omit: []string{"/a", "/b", "/c"}, want: `{}`},
		{omit: []string{"/a"}, want: `{"b":[1,2,3],"c":"s"}`},
		{omit: []string{"/c"}, want: `{"a":{"x":1},"b":[1,2,3]}`},
		{omit: []string{""}, want: `{"a":{"x":1},"b":[1,2,3],"c":"s"}`},
		{replace: []string{""}, want: `"R0"`},
		{replace: []string{"/a", "/b/2"}, want: `{"a":"R0","b":[1,2,"R1"],"c":"s"}`},
		{replace: []string{"/b/2", "/a"}, want: `{"a":"R1","b":[1,2,"R0"],"c":"s"}`},
		{replace: []string{"/a", "/a"}, want: `{"a":"R1","b":[1,2,3],"c":"s"}`},
		{omit: []string{"/a"}, replace: []string{"/a"}, want: `{"b":[1,2,3],"c":"s"}`},
		{omit: []string{"/a/x"}, replace: []string{"/a"}, want: `{"a":"R0","b":[1,2,3],"c":"s"}`},
	} {
		var doc canonical.Doc
		if err := doc.Parse([]byte(text)); err != nil {
			t.Fatal(err)
		}
		for i, pointer := range c.replace {
			doc.Replace(doc.Pointer(doc.Root(), pointer), []byte(`"R`+string(rune('0'+i))+`"`))
		}
		for _, pointer := range c.omit {
			doc.Omit(doc.Pointer(doc.Root(), pointer))
		}
		if got := string(doc.Append(nil, doc.Root())); got != c.want {
			t.Errorf("omit %q, replace %q gave %s, want %s", c.omit, c.replace, got, c.want)
		}
	}
}

// TestReplaceWithPartOfDoc gives Replace what lies in the Doc's own memory.
func TestReplaceWithPartOfDoc(t *testing.T) {
	var doc canonical.Doc
	long := strings.Repeat(`\u0031`, 300)
	if err := doc.Parse([]byte(`["` + long + `",0,0]`)); err != nil {
		t.Fatal(err)
	}
	digits := doc.Text(1)
	doc.Replace(3, digits)
	doc.Replace(2, digits)
	ones := strings.Repeat("1", 300)
	if got, want := string(doc.Append(nil, 0)), `["`+ones+`",`+ones+`,`+ones+`]`; got != want {
		t.Errorf("gave %s", got)
	}
}
