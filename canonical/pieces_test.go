package canonical_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/callonce/callonce/canonical"
)

// nodesOf are all values of what doc has read, in the order of the text.
func nodesOf(doc *canonical.Doc) (nodes []canonical.Node) {
	var walk func(n canonical.Node)
	walk = func(n canonical.Node) {
		nodes = append(nodes, n)
		for c := doc.First(n); c != canonical.NoNode; c = doc.Next(c) {
			walk(c)
		}
	}
	walk(doc.Root())
	return nodes
}

// flawed are texts of one value that differ in one place each from its canonical form: white space, an escape, the spelling of a
// number, two members in the other order.
func flawed(doc *canonical.Doc, form string) (texts []string) {
	put := func(at, end int, text string) { texts = append(texts, form[:at]+text+form[end:]) }
	for _, n := range nodesOf(doc) {
		start, end := doc.Span(n)
		member, _ := doc.MemberSpan(n)
		for _, at := range []int{start, end, member} {
			put(at, at, " ")
		}
		if member < start {
			put(start-1, start-1, "\n")
			if c := form[member+1]; c >= 'a' && c <= 'z' {
				put(member+1, member+2, fmt.Sprintf(`\u%04x`, c))
			}
		}
		switch doc.Kind(n) {
		case canonical.String:
			if i := strings.IndexAny(form[start:end], "abcdefghijklmnopqrstuvwxyz"); i > 0 && !strings.Contains(form[start:end], `\`) {
				put(start+i, start+i+1, fmt.Sprintf(`\u%04x`, form[start+i]))
			}
		case canonical.Number:
			if !strings.Contains(form[start:end], "e") {
				put(end, end, "e0")
			}
		case canonical.Array, canonical.Object:
			put(start+1, start+1, "\t")
			put(end-1, end-1, "\r")
		}
		if next := doc.Next(n); next != canonical.NoNode && member < start {
			from, to := doc.MemberSpan(next)
			put(member, to, form[from:to]+","+form[member:end])
		}
	}
	return texts
}

// TestFormOfNearlyCanonicalTexts has what is copied in large pieces, and one place in it that cannot be: whole, and with one value left
// out or replaced.
func TestFormOfNearlyCanonicalTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		form := canonicalOf(anyModel(anyDecimal, 3).Draw(t, "value"))
		var doc canonical.Doc
		if err := doc.Parse([]byte(form)); err != nil {
			t.Fatal(err)
		}
		texts := flawed(&doc, form)
		r := anyRand.Draw(t, "choice")
		for range min(len(texts), 40) {
			text := texts[r.IntN(len(texts))]
			if err := doc.Parse([]byte(text)); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if got := string(doc.Append(nil, doc.Root())); got != form {
				t.Fatalf("%q\ngave %q\nwant %q", text, got, form)
			}
			nodes := nodesOf(&doc)
			n := nodes[r.IntN(len(nodes))]
			omitted, replaced := map[canonical.Node]bool{}, map[canonical.Node]model{}
			if r.IntN(2) == 0 {
				doc.Omit(n)
				omitted[n] = true
			} else {
				doc.Replace(n, []byte(`["r"]`))
				replaced[n] = array{"r"}
			}
			want := canonicalOf(modelOf(&doc, doc.Root(), omitted, replaced))
			if got := string(doc.Append(nil, doc.Root())); got != want {
				t.Fatalf("%q without %v, with %v\ngave %q\nwant %q", text, omitted, replaced, got, want)
			}
		}
	})
}

// TestEscapesThatStay has each escape beside its canonical form, alone and between others.
func TestEscapesThatStay(t *testing.T) {
	for escape, want := range map[string]string{
		`\"`: `\"`, `\\`: `\\`, `\b`: `\b`, `\f`: `\f`, `\n`: `\n`, `\r`: `\r`, `\t`: `\t`, `\/`: `/`,
		`\u0000`: `\u0000`, `\u0007`: `\u0007`, `\u0008`: `\b`, `\u0009`: `\t`, `\u000a`: `\n`, `\u000A`: `\n`, `\u000b`: `\u000b`, `\u000B`: `\u000b`,
		`\u000c`: `\f`, `\u000d`: `\r`, `\u000e`: `\u000e`, `\u000E`: `\u000e`, `\u001f`: `\u001f`, `\u001F`: `\u001f`, `\u0020`: ` `,
		`\u0022`: `\"`, `\u002f`: `/`, `\u005C`: `\\`, `\u007f`: "\x7f", `\u00e9`: "é", `\u20AC`: "€", `\ud83d\ude00`: "😀",
		`\ud83d`: `\ud83d`, `\uD83D`: `\ud83d`, `\uDE00`: `\ude00`,
	} {
		for _, around := range []string{"%s", "a%sb", `\n%s\t`, "é%s", "%[1]s x%[1]s", `%[1]s\/%[1]s`} {
			in := fmt.Sprintf(around, escape)
			out := strings.ReplaceAll(fmt.Sprintf(around, want), `\/`, "/")
			if got := mustForm(t, []byte(`["`+in+`",1]`)); got != `["`+out+`",1]` {
				t.Errorf("%s gave %s, want %s", in, got, out)
			}
			if strings.HasPrefix(escape, `\ud83d`) || strings.HasPrefix(escape, `\uD`) {
				continue
			}
			if got := mustForm(t, []byte(`{"`+in+`":1}`)); got != `{"`+out+`":1}` {
				t.Errorf("the name %s gave %s, want %s", in, got, out)
			}
		}
	}
}

// TestTextIsDecodedWhenAsked reads the texts of strings in any order, and the form between them.
func TestTextIsDecodedWhenAsked(t *testing.T) {
	var doc canonical.Doc
	if err := doc.Parse([]byte(`["\u0061\n","plain","\ud83d\ude00\/",{"\u0062":"\"c"}]`)); err != nil {
		t.Fatal(err)
	}
	const form = `["a\n","plain","😀/",{"b":"\"c"}]`
	texts := map[canonical.Node]string{1: "a\n", 2: "plain", 3: "😀/", 6: `"c`}
	for range 2 {
		for n, want := range texts {
			if got := string(doc.Text(n)); got != want {
				t.Errorf("text of %d is %q, want %q", n, got, want)
			}
			if got := string(doc.Append(nil, 0)); got != form {
				t.Errorf("after the text of %d: %s", n, got)
			}
		}
	}
	if first := doc.Text(1); &first[0] != &doc.Text(1)[0] {
		t.Error("decoded twice")
	}
}
