package canonical_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/callonce/callonce/canonical"
)

// seedTexts are the field cases and texts near each rule.
func seedTexts(f *testing.F) [][]byte {
	file, err := os.Open("testdata/canonical.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	var seeds [][]byte
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var row field
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, []byte(row.A))
		if row.B != nil {
			seeds = append(seeds, []byte(*row.B))
		}
	}
	return append(seeds,
		[]byte(`{"a":["cut \ud83d","\ude00\ud83d","\\ud83d","\uD83D\u0041\uDE00"],"b\ud83d":0}`),
		toolCall(300), nest("[{", 128, true), nest("{[", 129, false),
		[]byte(`{"z":[1,{"b":"\ud83d\ude00","a":[]}],"\u0061bcdefghi":-0.50e+3,"abcdefghj":{}}`),
		[]byte(`{"a":1,"b":{"c":1,"b":2,"c":`), []byte(`{"b":"x","a":tru`), []byte("[\"\xed\xa0\x80\"]"), []byte("\ufeff1"),
		[]byte(`{"`+"\ufb33"+`":1,"😀":2,"é":3,"`+"\uffff"+`":4}`), []byte("\"eight by\x1f\""), []byte(`["\"\\\/\b\f\n\r\t\u0000\u001f\u007f"]`),
		[]byte(`{"k17":0,"k16":0,"k15":0,"k14":0,"k13":0,"k12":0,"k11":0,"k10":0,"k9":0,"k8":0,"k7":0,"k6":0,"k5":0,"k4":0,"k3":0,"k2":0,"k1":0}`),
	)
}

// FuzzParse compares what is accepted, and the offset of what is not, with
// encoding/json.
func FuzzParse(f *testing.F) {
	for _, seed := range seedTexts(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		if !checkDefect(t, text) {
			return
		}
		var doc canonical.Doc
		doc.Parse(text)
		want, err := decode(text)
		if err != nil {
			t.Fatalf("%q accepted, encoding/json says %v", text, err)
		}
		sameValue(t, &doc, doc.Root(), want)
		if !bytes.Equal(text, before) {
			t.Fatalf("%q was changed to %q", before, text)
		}
	})
}

// FuzzCanonical compares the form with that of the tests' own model, and with jcs
// where a double keeps every number.
func FuzzCanonical(f *testing.F) {
	for _, seed := range seedTexts(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var doc canonical.Doc
		if doc.Parse(text) != nil {
			return
		}
		form := doc.Append(nil, doc.Root())
		if want := canonicalOf(modelOf(&doc, doc.Root(), nil, nil)); string(form) != want {
			t.Fatalf("%q gave %q, want %q", text, form, want)
		}
		if again := mustForm(t, form); again != string(form) {
			t.Fatalf("%q gave %q, and that gave %q", text, form, again)
		}
		exact := true
		for n := canonical.Node(0); int(n) <= len(text)*2; n++ {
			exact = exact && (doc.Kind(n) != canonical.Number || exactDouble(string(doc.Raw(n)))) && doc.Lone(n) < 0
		}
		if !exact {
			return
		}
		want, err := jcs.Transform(text)
		if err != nil {
			t.Fatalf("%q: jcs: %v", text, err)
		}
		if !bytes.Equal(form, want) {
			t.Fatalf("%q gave %q, jcs gives %q", text, form, want)
		}
	})
}

// FuzzNumber compares tokens with arithmetic.
func FuzzNumber(f *testing.F) {
	for _, seed := range []string{"0", "-0", "1", "10", "-1.50", "1e21", "1e20", "1e-6", "1e-7", "123456789012345678901", "0.000001",
		"1234567890123456789012", "9007199254740993", "1e999999999", "1e99999999999999999999", "10e99999999999999999998",
		"0.1e-1000000000000000000", "1e-1000000000000000000", "0e5", "1E+0005", "00", "1.", ".5", "1e", "-", "5e-324"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		canonical.AppendNumber(nil, []byte(token))
		d := decimalOf(token)
		var doc canonical.Doc
		if err := doc.Parse([]byte(token)); (err == nil && doc.Kind(0) == canonical.Number) != (d != nil) && !hasSpace(token) {
			t.Fatalf("%q: %v", token, err)
		}
		if d == nil {
			return
		}
		if got := formOfNumber(t, token); got != d.canonical() {
			t.Fatalf("%s gave %s, want %s", token, got, d.canonical())
		}
	})
}

// hasSpace reports whether a token has white space around it, which Parse allows.
func hasSpace(token string) bool {
	return len(bytes.Trim([]byte(token), " \t\r\n")) != len(token)
}
