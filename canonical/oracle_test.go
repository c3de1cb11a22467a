package canonical_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/callonce/callonce/canonical"
)

// earliest is the offset of the earliest defect of text, and the reason if it is one
// of those that the grammar does not know; NoReason for a defect of grammar, and
// len(text)+1 for no defect. It is found with encoding/json, one rule at a time.
func earliest(text []byte) (offset int, reason canonical.Reason) {
	offset = grammarDefect(text)
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		return 0, canonical.ByteOrderMark
	}
	lower := func(at int, why canonical.Reason) {
		if at < offset {
			offset, reason = at, why
		}
	}
	if at := encodingDefect(text); at < offset {
		// Outside a string the grammar complains of the same byte.
		lower(at, canonical.NotUTF8)
	}
	// What cannot be decoded becomes U+FFFD in encoding/json, and is no name.
	duplicate, deep, lone := structureDefects(text[:min(offset, len(text))])
	lower(lone, canonical.LoneSurrogate)
	lower(duplicate, canonical.DuplicateName)
	lower(deep, canonical.TooDeep)
	return offset, reason
}

// grammarDefect is where encoding/json finds a defect, which is blind to encodings.
// At the end of a text it is given a byte that fits nowhere, since its own offsets
// there are not all alike.
func grammarDefect(text []byte) int {
	if json.Valid(text) {
		return len(text) + 1
	}
	var syntax *json.SyntaxError
	var raw json.RawMessage
	if err := json.Unmarshal(append(bytes.Clone(text), 1), &raw); !errors.As(err, &syntax) {
		panic(err)
	}
	return int(syntax.Offset) - 1
}

func encodingDefect(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return math.MaxInt
}

// surrogateDefect takes each escape of a name from left to right.
func surrogateDefect(text []byte) int {
	unit := func(i int) rune {
		if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
			return -1
		}
		v, err := strconv.ParseUint(string(text[i+2:i+6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(v)
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		switch u := unit(i); {
		case u < 0xd800 || u > 0xdfff:
			i++
		case u < 0xdc00 && unit(i+6) >= 0xdc00 && unit(i+6) <= 0xdfff:
			i += 11
		default:
			return i
		}
	}
	return math.MaxInt
}

// structureDefects are the offsets of the first name that its object already has, and
// of the first bracket that opens one container too many, and of the first half of a
// surrogate pair in a name, up to the first defect of grammar.
func structureDefects(text []byte) (duplicate, deep, lone int) {
	duplicate, deep, lone = math.MaxInt, math.MaxInt, math.MaxInt
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var names []map[string]bool // nil for an array
	wantName := false
	for {
		before := int(decoder.InputOffset())
		token, err := decoder.Token()
		start, end := before, int(decoder.InputOffset())
		for start < len(text) && bytes.IndexByte([]byte(" \t\r\n,:"), text[start]) >= 0 {
			start++
		}
		if err != nil {
			end = len(text) // also of a name that does not end
		}
		if at := surrogateDefect(text[start:max(start, end)]); wantName && start < len(text) && text[start] == '"' && at < math.MaxInt {
			lone = min(lone, start+at)
		}
		if err != nil {
			return duplicate, deep, lone
		}
		isName := false
		switch token {
		case json.Delim('{'), json.Delim('['):
			if len(names) == canonical.MaxDepth && deep == math.MaxInt {
				deep = start
			}
			if token == json.Delim('{') {
				names = append(names, map[string]bool{})
			} else {
				names = append(names, nil)
			}
		case json.Delim('}'), json.Delim(']'):
			names = names[:len(names)-1]
		default:
			if wantName {
				isName = true
				// encoding/json reads half a pair as U+FFFD, which would make the name equal to others.
				if surrogateDefect(text[start:end]) == math.MaxInt {
					name := token.(string)
					if names[len(names)-1][name] {
						duplicate = min(duplicate, start)
					}
					names[len(names)-1][name] = true
				}
			}
		}
		wantName = len(names) > 0 && names[len(names)-1] != nil && !isName
	}
}

// checkDefect compares what Parse says of text with the oracle.
func checkDefect(t rapid.TB, text []byte) (accepted bool) {
	t.Helper()
	var doc canonical.Doc
	err := doc.Parse(text)
	offset, reason := earliest(text)
	if err == nil {
		if offset <= len(text) {
			t.Fatalf("%q accepted; defect at %d: %v", text, offset, reason)
		}
		return true
	}
	e, ok := err.(*canonical.Error)
	if !ok {
		t.Fatalf("%q: error of type %T", text, err)
	}
	if e.Offset != offset {
		t.Fatalf("%q: %v; the earliest defect is at %d (%v)", text, err, offset, reason)
	}
	if reason != canonical.NoReason && e.Reason != reason {
		t.Fatalf("%q: %v; the earliest defect is: %v", text, err, reason)
	}
	found := canonical.EndOfText
	if offset < len(text) {
		found = int(text[offset])
	}
	if e.Found != found {
		t.Fatalf("%q: %v; found %d, want %d", text, err, e.Found, found)
	}
	checkRemains(t, text, &doc, e)
	return false
}

// checkRemains walks what a refused text left: it must be consistent, and what is
// called complete must really be there before the defect.
func checkRemains(t rapid.TB, text []byte, doc *canonical.Doc, defect *canonical.Error) {
	t.Helper()
	var walk func(n canonical.Node, start, end int)
	walk = func(n canonical.Node, start, end int) {
		from, to := doc.Span(n)
		if from < start || to > end || from > to {
			t.Fatalf("%q: node %d at %d–%d, in %d–%d", text, n, from, to, start, end)
		}
		if doc.Complete(n) {
			if to > defect.Offset {
				t.Fatalf("%q: node %d at %d–%d complete, defect at %d", text, n, from, to, defect.Offset)
			}
			if form, err := canonical.Append(nil, doc.Raw(n)); err != nil {
				t.Fatalf("%q: complete node %d is %q: %v", text, n, doc.Raw(n), err)
			} else if got := doc.Append(nil, n); !bytes.Equal(got, form) {
				t.Fatalf("%q: node %d gave %q, on its own %q", text, n, got, form)
			}
		}
		doc.Text(n)
		for c := doc.First(n); c != canonical.NoNode; c = doc.Next(c) {
			memberStart, _ := doc.MemberSpan(c)
			if memberStart < from {
				t.Fatalf("%q: member at %d in an object at %d", text, memberStart, from)
			}
			walk(c, memberStart, to)
		}
		if len(doc.Sorted(n)) > 0 && doc.Kind(n) != canonical.Object {
			t.Fatalf("%q: node %d, no object, has sorted members", text, n)
		}
	}
	if root := doc.Root(); root != canonical.NoNode {
		walk(root, 0, len(text))
		if form := doc.Append(nil, root); !json.Valid(form) {
			t.Fatalf("%q: what was read is written as %q", text, form)
		}
	}
}

// damage changes text at one to three places.
func damage(t *rapid.T, text []byte) []byte {
	pieces := []string{"", "\"", "\\", "\\u", "\\ud83d", "\\ude00", "{", "}", "[", "]", ",", ":", "0", "1", "-", ".", "e", "+",
		"null", "tru", "\xff", "\xe2\x82", "\xed\xa0\x80", "\ufeff", "\x00", "\x1f", " ", "\"a\":1,", "\"\\u0061\":1,", "é"}
	for range rapid.IntRange(1, 3).Draw(t, "damages") {
		i := rapid.IntRange(0, len(text)).Draw(t, "at")
		j := min(len(text), i+rapid.IntRange(0, 3).Draw(t, "cut"))
		piece := rapid.SampledFrom(pieces).Draw(t, "piece")
		text = append(append(append([]byte{}, text[:i]...), piece...), text[j:]...)
	}
	return text
}

// TestEarliestDefectOfHalvesAndReplacements is about names that encoding/json takes for one.
func TestEarliestDefectOfHalvesAndReplacements(t *testing.T) {
	for _, text := range []string{
		`{"\ufffd":1,"\ud800":2}`, `{"�":1,"\udc00":2}`, "{\"\ufffd\":1,\"\xff\":2}", "{\"\ufffd\":1,\"\xed\xa0\x80\":2}",
		`{"\ud800":1,"\ufffd":2}`, `{"�":1,"\ud800"\udc00":2}`,
	} {
		if checkDefect(t, []byte(text)) {
			t.Errorf("%q accepted", text)
		}
	}
	if !checkDefect(t, []byte(`{"�":1,"\ud800\udc00":2}`)) {
		t.Error("a name of a whole pair refused beside U+FFFD")
	}
}

func TestEarliestDefectOfDamagedTexts(t *testing.T) {
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		text := spellText(anyRand.Draw(t, "spelling"), anyModel(anyDecimal, 3).Draw(t, "value"))
		for range 20 {
			if checkDefect(t, damage(t, text)) {
				accepted++
			} else {
				refused++
			}
		}
	})
	if accepted < refused/100 || refused < accepted/100 {
		t.Errorf("%d accepted, %d refused: one side is hardly tried", accepted, refused)
	}
}

// TestEarliestDefectOfTruncatedTexts also checks that what is complete in a truncated
// text is what stands there in the whole one.
func TestEarliestDefectOfTruncatedTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := spellText(anyRand.Draw(t, "spelling"), anyModel(anyDecimal, 3).Draw(t, "value"))
		var whole, part canonical.Doc
		if err := whole.Parse(text); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			cut := rapid.IntRange(0, len(text)-1).Draw(t, "cut")
			checkDefect(t, text[:cut])
			if part.Parse(text[:cut]) == nil {
				continue
			}
			for n := canonical.Node(0); whole.Kind(n) != canonical.Invalid || part.Kind(n) != canonical.Invalid ||
				whole.Kind(n+1) != canonical.Invalid; n++ {
				start, end := whole.Span(n)
				closes := whole.Kind(n) >= canonical.String
				want := whole.Kind(n) != canonical.Invalid && (end < cut || end == cut && closes) && start < cut
				if got := part.Complete(n); got != want {
					t.Fatalf("%q cut at %d: node %d (%v at %d–%d) complete: %v, want %v",
						text, cut, n, whole.Kind(n), start, end, got, want)
				}
				if want && !bytes.Equal(part.Text(n), whole.Text(n)) {
					t.Fatalf("%q cut at %d: text %q, want %q", text, cut, part.Text(n), whole.Text(n))
				}
			}
		}
	})
}
