package mcp_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

// besides are bodies with a hole for a member beside the exact ones, and insteads the
// same without the exact one, by the name that the member may equal but for case.
var besides = map[string]string{
	"method":    `{"id":7,"method":"tools/call","params":{"name":"pay"},"%":1}`,
	"params":    `{"id":7,"method":"tools/call","%":1,"params":{"name":"pay"}}`,
	"id":        `{"%":1,"id":7,"method":"tools/call","params":{"name":"pay"}}`,
	"name":      `{"id":7,"method":"tools/call","params":{"name":"pay","%":"x"}}`,
	"arguments": `{"id":7,"method":"tools/call","params":{"%":{},"name":"pay","arguments":{}}}`,
}

var insteads = map[string]string{
	"method":    `{"id":7,"%":"tools/call","params":{"name":"pay"}}`,
	"params":    `{"id":7,"method":"tools/call","%":{"name":"pay"}}`,
	"id":        `{"%":7,"method":"tools/call","params":{"name":"pay"}}`,
	"name":      `{"id":7,"method":"tools/call","params":{"%":"pay"}}`,
	"arguments": `{"id":7,"method":"tools/call","params":{"name":"pay","%":{"a":1}}}`,
}

func put(body, name string) string { return strings.Replace(body, "%", name, 1) }

// spellings gives every mixture of upper and lower case of an ASCII word but the
// word itself.
func spellings(word string) []string {
	all := []string{""}
	for _, c := range word {
		var longer []string
		for _, s := range all {
			longer = append(longer, s+string(c), s+strings.ToUpper(string(c)))
		}
		all = longer
	}
	return all[1:]
}

func TestCaseVariantsByASCII(t *testing.T) {
	for word := range besides {
		for _, caseVariant := range spellings(word) {
			for _, body := range []string{put(besides[word], caseVariant), put(insteads[word], caseVariant)} {
				if r := read(body); r.Kind != mcp.Ambiguous {
					t.Errorf("%s: kind %d", body, r.Kind)
				}
			}
		}
	}
}

// Of all characters, Unicode's simple folding makes only these two equal to ASCII
// letters (CaseFolding.txt, status C): LATIN SMALL LETTER LONG S and KELVIN SIGN.
var folded = map[rune]rune{0x17F: 's', 0x212A: 'k'}

func hasCase(c rune) bool {
	return unicode.SimpleFold(c) != c || unicode.ToLower(c) != c || unicode.ToUpper(c) != c
}

// Every character with case, and every other below U+3000, in the place of every
// letter: a case variant exactly when simple folding says so. Full folding and locales (İd, ıd)
// do not count: no JSON decoder uses them.
func TestCaseVariantsByUnicodeFolding(t *testing.T) {
	var r mcp.Request
	for word := range besides {
		body := besides[word]
		for i, letter := range word {
			for c := rune(0x80); c < 0x20000; c++ {
				if c >= 0x3000 && !hasCase(c) {
					continue
				}
				want := mcp.ToolCall
				if folded[c] == letter {
					want = mcp.Ambiguous
				}
				r.Read([]byte(put(body, word[:i]+string(c)+word[i+1:])), pointers)
				if r.Kind != want {
					t.Errorf("%s with %U for %c: kind %d, want %d", word, c, letter, r.Kind, want)
				}
			}
		}
	}
}

func TestCaseVariantsSpelledOtherwise(t *testing.T) {
	for _, body := range []string{
		put(besides["params"], "paramſ"),
		put(insteads["params"], "paramſ"),
		put(besides["params"], "PARAMſ"),
		put(besides["params"], `param\u017f`),
		put(besides["arguments"], "argumentſ"),
		put(insteads["arguments"], `argument\u017F`),
		put(besides["name"], `\u004eame`),
		put(besides["id"], `i\u0044`),
		put(insteads["id"], `\u0049\u0044`),
	} {
		if r := read(body); r.Kind != mcp.Ambiguous {
			t.Errorf("%s: kind %d", body, r.Kind)
		}
	}
	for _, body := range []string{
		put(besides["id"], "İd"),
		put(besides["id"], "ıd"),
		put(besides["id"], "ⅰd"),
		put(besides["name"], "nаme"), // a Cyrillic letter
		put(besides["params"], "params "),
		put(besides["params"], "param"),
		put(besides["method"], `method\u0000`),
		put(besides["arguments"], "argumentss"),
	} {
		if r := read(body); r.Kind != mcp.ToolCall {
			t.Errorf("%s: kind %d", body, r.Kind)
		}
	}
}

// Only the names that a server decodes there have case variants.
func TestNoCaseVariantsElsewhere(t *testing.T) {
	for _, body := range []string{
		`{"id":7,"method":"tools/call","Name":1,"ARGUMENTS":2,"JsonRPC":"2.0","params":{"name":"pay"}}`,
		call(`"name":"pay","Method":1,"PARAMS":2,"Id":3,"_META":4`),
		argued(`{"Name":"x","ARGUMENTS":1,"Method":2,"Params":3,"ID":4}`),
		call(`"name":"pay","_meta":{"NAME":"x"}`),
	} {
		if r := read(body); r.Kind != mcp.ToolCall {
			t.Errorf("%s: kind %d", body, r.Kind)
		}
	}
}

// A case variant at the top level makes any message ambiguous: which method it has is what a
// server may see otherwise.
func TestCaseVariantsOfOtherMessages(t *testing.T) {
	for _, body := range []string{
		`{"id":7,"method":"tools/list","Method":"tools/call","params":{"name":"pay"}}`,
		`{"id":7,"method":"tools/list","METHOD":"tools/list"}`,
		`{"id":7,"result":{},"Method":"tools/call"}`,
		`{"Id":7,"result":{}}`,
		`{"method":"notifications/initialized","Params":{}}`,
	} {
		if r := read(body); r.Kind != mcp.Ambiguous {
			t.Errorf("%s: kind %d", body, r.Kind)
		}
	}
	if r := read(`{"id":7,"method":"prompts/get","params":{"name":"a","Name":"b"}}`); r.Kind != mcp.Other {
		t.Errorf("a case variant in the params of another method: kind %d", r.Kind)
	}
}
