package canonical_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/callonce/callonce/canonical"
)

func refusal(t *testing.T, text []byte) *canonical.Error {
	t.Helper()
	var doc canonical.Doc
	err := doc.Parse(text)
	var e *canonical.Error
	if !errors.As(err, &e) {
		t.Fatalf("%.80q: got %v, want a *canonical.Error", text, err)
	}
	return e
}

// TestRefusals has each reason at least once, with the whole message.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		text    string
		reason  canonical.Reason
		message string
	}{
		{"", canonical.WantValue, "JSON: at byte 0: expected a value, found the end of the text"},
		{" \r\n\t", canonical.WantValue, "JSON: at byte 4: expected a value, found the end of the text"},
		{"\v1", canonical.WantValue, "JSON: at byte 0: expected a value, found 0x0b"},
		{"/**/1", canonical.WantValue, "JSON: at byte 0: expected a value, found '/'"},
		{"[1,]", canonical.WantValue, "JSON: at byte 3: expected a value, found ']'"},
		{"[1,", canonical.WantValue, "JSON: at byte 3: expected a value, found the end of the text"},
		{"[NaN]", canonical.WantElement, "JSON: at byte 1: expected a value or ']', found 'N'"},
		{"[}", canonical.WantElement, "JSON: at byte 1: expected a value or ']', found '}'"},
		{"[", canonical.WantElement, "JSON: at byte 1: expected a value or ']', found the end of the text"},
		{"[,1]", canonical.WantElement, "JSON: at byte 1: expected a value or ']', found ','"},
		{"{", canonical.WantMember, "JSON: at byte 1: expected a member name or '}', found the end of the text"},
		{"{]", canonical.WantMember, "JSON: at byte 1: expected a member name or '}', found ']'"},
		{"{a:1}", canonical.WantMember, "JSON: at byte 1: expected a member name or '}', found 'a'"},
		{`{"a":1,}`, canonical.WantName, "JSON: at byte 7: expected a member name, found '}'"},
		{`{"a":1,`, canonical.WantName, "JSON: at byte 7: expected a member name, found the end of the text"},
		{`{"a"}`, canonical.WantColon, "JSON: at byte 4: expected ':' after a member name, found '}'"},
		{`{"a" `, canonical.WantColon, "JSON: at byte 5: expected ':' after a member name, found the end of the text"},
		{`{"a":}`, canonical.WantValue, "JSON: at byte 5: expected a value, found '}'"},
		{`{"a":1 "b":2}`, canonical.WantMemberEnd, "JSON: at byte 7: expected ',' or '}' after a member, found '\"'"},
		{`{"a":1]`, canonical.WantMemberEnd, "JSON: at byte 6: expected ',' or '}' after a member, found ']'"},
		{`{"a":[]`, canonical.WantMemberEnd, "JSON: at byte 7: expected ',' or '}' after a member, found the end of the text"},
		{"[1 2]", canonical.WantElementEnd, "JSON: at byte 3: expected ',' or ']' after an element, found '2'"},
		{"[1}", canonical.WantElementEnd, "JSON: at byte 2: expected ',' or ']' after an element, found '}'"},
		{"[{}", canonical.WantElementEnd, "JSON: at byte 3: expected ',' or ']' after an element, found the end of the text"},
		{"{} x", canonical.WantEnd, "JSON: at byte 3: expected nothing after the value, found 'x'"},
		{"1\x00", canonical.WantEnd, "JSON: at byte 1: expected nothing after the value, found 0x00"},
		{"1 \xff", canonical.WantEnd, "JSON: at byte 2: expected nothing after the value, found 0xff"},
		{"1 \ufeff", canonical.WantEnd, "JSON: at byte 2: expected nothing after the value, found 0xef"},
		{"nul", canonical.WantLiteral, "JSON: at byte 3: expected true, false or null, found the end of the text"},
		{"[trUe]", canonical.WantLiteral, "JSON: at byte 3: expected true, false or null, found 'U'"},
		{"fals ", canonical.WantLiteral, "JSON: at byte 4: expected true, false or null, found 0x20"},
		{"[-]", canonical.WantDigit, "JSON: at byte 2: expected a digit, found ']'"},
		{"1.", canonical.WantDigit, "JSON: at byte 2: expected a digit, found the end of the text"},
		{"1.e5", canonical.WantDigit, "JSON: at byte 2: expected a digit, found 'e'"},
		{"1e", canonical.WantDigit, "JSON: at byte 2: expected a digit, found the end of the text"},
		{"1e+-2", canonical.WantDigit, "JSON: at byte 3: expected a digit, found '-'"},
		{"[.5]", canonical.WantElement, "JSON: at byte 1: expected a value or ']', found '.'"},
		{"[+1]", canonical.WantElement, "JSON: at byte 1: expected a value or ']', found '+'"},
		{"[01]", canonical.LeadingZero, "JSON: at byte 2: expected no digit after a leading zero, found '1'"},
		{"-00", canonical.LeadingZero, "JSON: at byte 2: expected no digit after a leading zero, found '0'"},
		{`"abc`, canonical.WantQuote, "JSON: at byte 4: expected the closing quote of a string, found the end of the text"},
		{`{"abcdefghijk`, canonical.WantQuote, "JSON: at byte 13: expected the closing quote of a string, found the end of the text"},
		{`"\x"`, canonical.WantEscape, "JSON: at byte 2: expected one of \"\\/bfnrtu after a backslash, found 'x'"},
		{`"\`, canonical.WantEscape, "JSON: at byte 2: expected one of \"\\/bfnrtu after a backslash, found the end of the text"},
		{`"\u12g4"`, canonical.WantHex, "JSON: at byte 5: expected four hexadecimal digits after \\u, found 'g'"},
		{`"\u12`, canonical.WantHex, "JSON: at byte 5: expected four hexadecimal digits after \\u, found the end of the text"},
		{"\"a\x01\"", canonical.ControlCharacter, "JSON: at byte 2: expected an escape for a control character, found 0x01"},
		{"\"a\x1fbcdefghijk\"", canonical.ControlCharacter, "JSON: at byte 2: expected an escape for a control character, found 0x1f"},
		{"\"eight by\n\"", canonical.ControlCharacter, "JSON: at byte 9: expected an escape for a control character, found 0x0a"},
		{`"\n` + "\t" + `"`, canonical.ControlCharacter, "JSON: at byte 3: expected an escape for a control character, found 0x09"},
		{`{"\ud800":0}`, canonical.LoneSurrogate, "JSON: at byte 2: expected both halves of a surrogate pair, found one half alone"},
		{"\"\xff\"", canonical.NotUTF8, "JSON: at byte 1: expected well-formed UTF-8, found 0xff"},
		{"\ufeff{}", canonical.ByteOrderMark, "JSON: at byte 0: expected no byte order mark, found 0xef"},
		{`{"a":1,"a":2}`, canonical.DuplicateName,
			"JSON: at byte 7: expected a name not used before in its object, found the name at byte 1 again"},
		{strings.Repeat("[", 129), canonical.TooDeep,
			"JSON: at byte 128: expected at most 128 containers inside one another, found '['"},
	} {
		e := refusal(t, []byte(c.text))
		if e.Reason != c.reason || e.Error() != c.message {
			t.Errorf("%.40q\ngave %q (%d)\nwant %q (%d)", c.text, e, e.Reason, c.message, c.reason)
		}
	}
}

func TestReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for r := canonical.WantValue; r <= canonical.TooMany; r++ {
		if s := r.String(); s == "" || seen[s] || strings.HasPrefix(s, "reason ") {
			t.Errorf("reason %d is %q", r, s)
		}
		seen[r.String()] = true
	}
	if got := canonical.NoReason.String() + ", " + (canonical.TooMany + 1).String(); got != "reason 0, reason 23" {
		t.Error(got)
	}
}

// TestEarliestDefectWins has two defects in each text; the reader finds the later one
// first, or could.
func TestEarliestDefectWins(t *testing.T) {
	for _, c := range []struct {
		text   string
		offset int
		reason canonical.Reason
	}{
		{`{"a":1,"a":x}`, 7, canonical.DuplicateName},
		{`{"a":1,"a"`, 7, canonical.DuplicateName},
		{`{"a":1,"a" x`, 7, canonical.DuplicateName},
		{`{"a":1,"a`, 9, canonical.WantQuote},
		{`{"a":1,"a\ud800":2}`, 9, canonical.LoneSurrogate},
		{`{"a":1,"a":{"b":2,"b":3}}`, 7, canonical.DuplicateName},
		{`{"a":1,"a":{"b":2,"b":3`, 7, canonical.DuplicateName},
		{`{"a":{"b":2,"b":3},"a":1}`, 12, canonical.DuplicateName},
		{`{"a":[{"b":2,"b":[}],"a":1}`, 13, canonical.DuplicateName},
		{`{"z":0,"a":1,"z":[{"c":1,"b":2,"c":`, 13, canonical.DuplicateName},
		{`{"b":1,"a":2,"b":3,"a":4}`, 13, canonical.DuplicateName},
		{`{"a":1,"b":2,"a":3,"b":4,"a":5}`, 13, canonical.DuplicateName},
		{`{"c":0,"c":1,"a":2,"a":3}`, 7, canonical.DuplicateName},
		{`{"z":0,"y":0,"x":0,"w":0,"v":0,"u":0,"t":0,"s":0,"r":0,"z":0,"q":0,"p":0,"o":0,"n":0,"m":0,"l":0,"k":0,"z":0}`,
			55, canonical.DuplicateName},
		{`{"a":1,"a":2} x`, 7, canonical.DuplicateName},
		{`{"a":1,"a":` + strings.Repeat("[", 200), 7, canonical.DuplicateName},
		{`{"\ud800":0,"\ud800":1}`, 2, canonical.LoneSurrogate},
		{`{"\ud800\u"`, 2, canonical.LoneSurrogate},
		{`{"\ud800\uzzzz"`, 2, canonical.LoneSurrogate},
		{`{"\ud800`, 2, canonical.LoneSurrogate},
		{`{"a":"\ud800","a":1}`, 14, canonical.DuplicateName},
		{`{"a":"\ud800","\ud800":1}`, 15, canonical.LoneSurrogate},
		{`["\ud800",x`, 10, canonical.WantValue},
		{`"\ud800\u"`, 9, canonical.WantHex},
		{`"\ud800\uzzzz"`, 9, canonical.WantHex},
		{`"\ud800`, 7, canonical.WantQuote},
		{"\"\xe2\x82", 1, canonical.NotUTF8},
	} {
		if e := refusal(t, []byte(c.text)); e.Offset != c.offset || e.Reason != c.reason {
			t.Errorf("%q: %v (%d), want reason %d at %d", c.text, e, e.Reason, c.reason, c.offset)
		}
	}
}

func TestDuplicateNamesTheFirst(t *testing.T) {
	for _, c := range []struct {
		text          string
		first, second int
	}{
		{`{"a":1,"a":2,"a":3}`, 1, 7},
		{` {"b":0,"a":1,"c":2,"\u0061":3}`, 8, 20},
		{`{"x":{"b":0,"a":1,"b":2`, 6, 18},
	} {
		if e := refusal(t, []byte(c.text)); e.First != c.first || e.Offset != c.second {
			t.Errorf("%s: %v, want %d and %d", c.text, e, c.first, c.second)
		}
	}
}

// TestIllFormedUTF8 has each kind of ill-formed sequence of Unicode's table 3-7, in a
// value and in a name, before and behind the first eight bytes.
func TestIllFormedUTF8(t *testing.T) {
	for _, bad := range []string{"\x80", "\xbf", "\xc0\xaf", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x80\xaf", "\xe0\x9f\xbf", "\xe2\x82",
		"\xe2(\xac", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf0\x9f\x98", "\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xfe", "\xff"} {
		for _, before := range []string{"", "a", "seven b", "eight by", "é", "\\n", "€uro"} {
			for _, frame := range []string{"\"%\"", "[\"%x\"]", "{\"%\":1}", "{\"a\":1,\"%\":1}", "\"%"} {
				text := strings.Replace(frame, "%", before+bad, 1)
				e := refusal(t, []byte(text))
				if e.Reason != canonical.NotUTF8 || e.Offset != strings.LastIndex(text, bad) {
					t.Errorf("%q: %v", text, e)
				}
			}
		}
	}
}

// TestSurrogates tries each two escapes from around the edges of the two halves: both
// are code points, both are one pair, or each half alone stands for itself in a value,
// and is told in a name.
func TestSurrogates(t *testing.T) {
	units := []rune{0xd7ff, 0xd800, 0xd801, 0xd83d, 0xdbff, 0xdc00, 0xde00, 0xdfff, 0xe000}
	high := func(u rune) bool { return u >= 0xd800 && u < 0xdc00 }
	low := func(u rune) bool { return u >= 0xdc00 && u < 0xe000 }
	for _, a := range units {
		for _, b := range units {
			text := fmt.Sprintf(`"\u%04x\u%04X"`, a, b)
			var doc canonical.Doc
			if err := doc.Parse([]byte(text)); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			lone := -1
			if high(a) && !low(b) || low(a) {
				lone = 1
			} else if !high(a) && (high(b) || low(b)) {
				lone = 7
			}
			if got := doc.Lone(0); got != lone {
				t.Errorf("%s: the first half alone is at %d, want %d", text, got, lone)
			}
			switch {
			case high(a) && low(b):
				want := `"` + string(utf16.DecodeRune(a, b)) + `"`
				if got := mustForm(t, []byte(text)); got != want {
					t.Errorf("%s gave %s, want %s", text, got, want)
				}
			case high(a) || low(a) || high(b) || low(b):
				want := `"`
				for _, u := range []rune{a, b} {
					if high(u) || low(u) {
						want += fmt.Sprintf(`\u%04x`, u)
					} else {
						want += string(u)
					}
				}
				if got := mustForm(t, []byte(text)); got != want+`"` {
					t.Errorf("%s gave %s, want %s", text, got, want)
				}
				name := "{" + text + ":0}"
				if e := refusal(t, []byte(name)); e.Reason != canonical.LoneSurrogate || e.Offset != lone+1 {
					t.Errorf("%s: %v, want a lone surrogate at %d", name, e, lone+1)
				}
			default:
				if got := mustForm(t, []byte(text)); got != `"`+string([]rune{a, b})+`"` {
					t.Errorf("%s gave %s", text, got)
				}
			}
		}
	}
}

// nest is a text of depth containers inside one another, of the kinds of which
// brackets has the opening brackets, in turn.
func nest(brackets string, depth int, closed bool) []byte {
	var open, shut strings.Builder
	for i := range depth {
		last := i == depth-1
		if brackets[i%len(brackets)] == '[' {
			open.WriteString("[")
		} else if open.WriteString("{"); !last {
			open.WriteString(`"a":`)
		}
	}
	for i := depth - 1; closed && i >= 0; i-- {
		shut.WriteByte(brackets[i%len(brackets)] + 2)
	}
	return []byte(open.String() + shut.String())
}

func TestDepth(t *testing.T) {
	for _, brackets := range []string{"[", "{", "[{", "{["} {
		for _, depth := range []int{1, 127, 128} {
			text := nest(brackets, depth, true)
			if got := mustForm(t, text); got != string(text) {
				t.Errorf("depth %d gave %s", depth, got)
			}
		}
		for _, depth := range []int{129, 130, 1000, 10_000, 500_000} {
			for _, closed := range []bool{true, false} {
				e := refusal(t, nest(brackets, depth, closed))
				want := len(nest(brackets, 129, false)) - 1
				if e.Reason != canonical.TooDeep || e.Offset != want {
					t.Errorf("%s depth %d, closed %v: %v, want offset %d", brackets, depth, closed, e, want)
				}
			}
		}
	}
	// Depth counts what is open, not what was opened.
	wide := append(append([]byte("["), strings.Repeat(string(nest("[{", 127, true))+",", 50)...), "0]"...)
	if got := mustForm(t, wide); got != string(wide) {
		t.Error("many deep values beside each other were changed")
	}
	if e := refusal(t, nest("[", 128, false)); e.Reason != canonical.WantElement || e.Offset != 128 {
		t.Errorf("128 unclosed: %v", e)
	}
}
