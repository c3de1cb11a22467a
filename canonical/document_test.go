package canonical_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"github.com/callonce/callonce/canonical"
)

func mustForm(t rapid.TB, text []byte) string {
	t.Helper()
	form, err := canonical.Append(nil, text)
	if err != nil {
		t.Fatalf("%q refused: %v", text, err)
	}
	return string(form)
}

func TestFormDependsOnValueOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyModel(anyDecimal, 4).Draw(t, "value")
		want := canonicalOf(v)
		r := anyRand.Draw(t, "spelling")
		var doc canonical.Doc
		for range 4 {
			text := spellText(r, v)
			if got := mustForm(t, text); got != want {
				t.Fatalf("%q\ngave %q\nwant %q", text, got, want)
			}
			if err := doc.Parse(text); err != nil {
				t.Fatal(err)
			}
			if got := string(doc.Append([]byte("before"), doc.Root())); got != "before"+want {
				t.Fatalf("a used Doc: %q\ngave %q\nwant %q", text, got, want)
			}
		}
		if again := mustForm(t, []byte(want)); again != want {
			t.Fatalf("form of form %q is %q", want, again)
		}
	})
}

// doubles draws decimals that are the shortest spelling of a double.
var doubles = rapid.Custom(func(t *rapid.T) *decimal {
	text, _ := json.Marshal(rapid.Float64().Draw(t, "double"))
	return decimalOf(string(text))
})

func TestFormIsThatOfJCS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := spellText(anyRand.Draw(t, "spelling"), withoutHalves(anyModel(doubles, 4).Draw(t, "value")))
		want, err := jcs.Transform(text)
		if err != nil {
			t.Fatalf("jcs refused %q: %v", text, err)
		}
		if got := mustForm(t, text); got != string(want) {
			t.Fatalf("%q\ngave %q\njcs  %q", text, got, want)
		}
	})
}

func TestFormDiffersWhereValuesDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyModel(anyDecimal, 3).Draw(t, "value")
		changed := change(t, v)
		r := anyRand.Draw(t, "spelling")
		a, b := spellText(r, v), spellText(r, changed)
		if form := mustForm(t, a); form == mustForm(t, b) {
			t.Fatalf("%q and %q both gave %q", a, b, form)
		}
		x, _ := canonical.Fingerprint(a)
		y, _ := canonical.Fingerprint(b)
		if x == y {
			t.Fatalf("%q and %q have one fingerprint", a, b)
		}
	})
}

// change makes one small change somewhere in v.
func change(t *rapid.T, v model) model {
	switch v := v.(type) {
	case nil:
		return rapid.SampledFrom([]model{false, "", "null", array{}, object{}, decimalOf("0")}).Draw(t, "not null")
	case bool:
		return !v
	case *decimal:
		return changeNumber(t, v)
	case string:
		if v == "" || rapid.Bool().Draw(t, "longer") {
			return v + string(anyRune.Draw(t, "more"))
		}
		if n := len(v) - 3; n >= 0 && v[n] == 0xed && v[n+1] >= 0xa0 {
			return v[:n] // half of a surrogate pair
		}
		return v[:strings.LastIndexFunc(v, func(rune) bool { return true })]
	case array:
		if len(v) == 0 {
			return rapid.SampledFrom([]model{array{nil}, object{}, nil, ""}).Draw(t, "not []")
		}
		i := rapid.IntRange(0, len(v)-1).Draw(t, "index")
		if rapid.Bool().Draw(t, "drop") {
			return append(append(array{}, v[:i]...), v[i+1:]...)
		}
		changed := append(array{}, v...)
		changed[i] = change(t, v[i])
		return changed
	case object:
		if len(v) == 0 {
			return rapid.SampledFrom([]model{object{{"", nil}}, array{}, nil, ""}).Draw(t, "not {}")
		}
		i := rapid.IntRange(0, len(v)-1).Draw(t, "index")
		if rapid.Bool().Draw(t, "drop") {
			return append(append(object{}, v[:i]...), v[i+1:]...)
		}
		changed := append(object{}, v...)
		changed[i] = member{v[i].name, change(t, v[i].value)}
		return changed
	}
	panic("no model")
}

func changeNumber(t *rapid.T, d *decimal) model {
	if d.digits == "" {
		return decimalOf("1e-400")
	}
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0:
		return &decimal{!d.negative, d.digits, d.exponent}
	case 1:
		return &decimal{d.negative, d.digits, new(big.Int).Add(d.exponent, big.NewInt(1))}
	case 2:
		return d.canonical()
	default:
		return &decimal{d.negative, d.digits + "1", new(big.Int).Sub(d.exponent, big.NewInt(1))}
	}
}

// sameValue compares node n of doc with what encoding/json made of the same text.
func sameValue(t rapid.TB, doc *canonical.Doc, n canonical.Node, want any) {
	t.Helper()
	switch want := want.(type) {
	case nil:
		expectKind(t, doc, n, canonical.Null)
	case bool:
		expectKind(t, doc, n, map[bool]canonical.Kind{false: canonical.False, true: canonical.True}[want])
	case json.Number:
		expectKind(t, doc, n, canonical.Number)
		if string(doc.Raw(n)) != string(want) {
			t.Fatalf("Raw %q, want %q", doc.Raw(n), want)
		}
	case string:
		expectKind(t, doc, n, canonical.String)
		if noHalves(string(doc.Text(n))) != want {
			t.Fatalf("Text %q, want %q", doc.Text(n), want)
		}
	case []any:
		expectKind(t, doc, n, canonical.Array)
		k := 0
		for e := doc.First(n); e != canonical.NoNode; e = doc.Next(e) {
			if k == len(want) {
				t.Fatalf("more than %d elements", k)
			}
			if doc.Parent(e) != n || doc.Name(e) != nil {
				t.Fatalf("element %d: parent %d, name %q", k, doc.Parent(e), doc.Name(e))
			}
			sameValue(t, doc, e, want[k])
			k++
		}
		if k != len(want) {
			t.Fatalf("%d elements, want %d", k, len(want))
		}
	case map[string]any:
		expectKind(t, doc, n, canonical.Object)
		k := 0
		for m := doc.First(n); m != canonical.NoNode; m = doc.Next(m) {
			name := string(doc.Name(m))
			value, ok := want[name]
			if !ok || doc.Parent(m) != n || doc.Member(n, name) != m {
				t.Fatalf("member %q: there %v, parent %d", name, ok, doc.Parent(m))
			}
			start, end := doc.MemberSpan(m)
			valueStart, valueEnd := doc.Span(m)
			if end != valueEnd || start >= valueStart {
				t.Fatalf("member %q at %d–%d, its value at %d–%d", name, start, end, valueStart, valueEnd)
			}
			sameValue(t, doc, m, value)
			k++
		}
		if k != len(want) {
			t.Fatalf("%d members, want %d", k, len(want))
		}
	}
}

func expectKind(t rapid.TB, doc *canonical.Doc, n canonical.Node, kind canonical.Kind) {
	t.Helper()
	if doc.Kind(n) != kind {
		t.Fatalf("node %d is %v, want %v", n, doc.Kind(n), kind)
	}
}

// decode is the text as encoding/json reads it.
func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	err := decoder.Decode(&v)
	return v, err
}

func TestLookupsSeeWhatEncodingJSONSees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := spellText(anyRand.Draw(t, "spelling"), anyModel(anyDecimal, 4).Draw(t, "value"))
		var doc canonical.Doc
		if err := doc.Parse(text); err != nil {
			t.Fatalf("%q refused: %v", text, err)
		}
		want, err := decode(text)
		if err != nil {
			t.Fatalf("encoding/json refused %q: %v", text, err)
		}
		sameValue(t, &doc, doc.Root(), want)
	})
}
