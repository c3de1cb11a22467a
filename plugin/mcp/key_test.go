package mcp_test

import (
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/mcp"
)

// keys are well-formed calls with what stands in their key places.
var keys = []struct {
	name  string
	body  string
	key   string // "" = none
	ok    bool
	keyed bool
}{
	{"none", call(`"name":"pay"`), "", true, false},
	{"SEP-3182's place", call(`"name":"pay","idempotencyKey":"k"`), "k", true, true},
	{"place in _meta", call(`"name":"pay","_meta":{"callonce.dev/idempotency-key":"k"}`), "k", true, true},
	{"place in arguments", argued(`{"idempotency_key":"k"}`), "k", true, true},
	{"all three", call(`"name":"pay","idempotencyKey":"k","_meta":{"callonce.dev/idempotency-key":"k"},"arguments":{"idempotency_key":"k"}`), "k", true, true},
	{"two that differ", call(`"name":"pay","idempotencyKey":"k","arguments":{"idempotency_key":"l"}`), "", false, true},
	{"two that differ by case", call(`"name":"pay","idempotencyKey":"k","arguments":{"idempotency_key":"K"}`), "", false, true},
	{"a beginning of the other", call(`"name":"pay","idempotencyKey":"k","arguments":{"idempotency_key":"k1"}`), "", false, true},
	{"third differs", call(`"name":"pay","idempotencyKey":"k","_meta":{"callonce.dev/idempotency-key":"k"},"arguments":{"idempotency_key":"l"}`), "", false, true},
	{"equal but for escapes", call(`"name":"pay","idempotencyKey":"k/é😀","arguments":{"idempotency_key":"\u006B\/\u00e9\ud83d\ude00"}`), "k/é😀", true, true},
	{"not normalised", call(`"name":"pay","idempotencyKey":"é","arguments":{"idempotency_key":"e\u0301"}`), "", false, true},
	{"null is absent", call(`"name":"pay","idempotencyKey":null`), "", true, false},
	{"null everywhere", call(`"name":"pay","idempotencyKey":null,"_meta":{"callonce.dev/idempotency-key":null},"arguments":{"idempotency_key":null}`), "", true, false},
	{"null beside a key", call(`"name":"pay","idempotencyKey":null,"arguments":{"idempotency_key":"k"}`), "k", true, true},
	{"a key beside null", call(`"name":"pay","idempotencyKey":"k","arguments":{"idempotency_key":null}`), "k", true, true},
	{"empty", call(`"name":"pay","idempotencyKey":""`), "", false, true},
	{"empty beside a key", call(`"name":"pay","idempotencyKey":"","arguments":{"idempotency_key":"k"}`), "", false, true},
	{"a number", call(`"name":"pay","idempotencyKey":7`), "", false, true},
	{"false", call(`"name":"pay","idempotencyKey":false`), "", false, true},
	{"a list", call(`"name":"pay","idempotencyKey":["k"]`), "", false, true},
	{"an object", call(`"name":"pay","idempotencyKey":{}`), "", false, true},
	{"a key beside a number", call(`"name":"pay","idempotencyKey":"k","arguments":{"idempotency_key":7}`), "", false, true},
	{"opaque: a space", call(`"name":"pay","idempotencyKey":" "`), " ", true, true},
	{"opaque: a line end and NUL", call(`"name":"pay","idempotencyKey":"a\n\u0000"`), "a\n\x00", true, true},
	{"255 of one byte", call(`"name":"pay","idempotencyKey":"` + strings.Repeat("a", 255) + `"`), strings.Repeat("a", 255), true, true},
	{"256 of one byte", call(`"name":"pay","idempotencyKey":"` + strings.Repeat("a", 256) + `"`), "", false, true},
	{"255 of two bytes", call(`"name":"pay","idempotencyKey":"` + strings.Repeat("é", 255) + `"`), strings.Repeat("é", 255), true, true},
	{"256 of two bytes", call(`"name":"pay","idempotencyKey":"` + strings.Repeat("é", 256) + `"`), "", false, true},
	{"255 of three bytes", call(`"name":"pay","idempotencyKey":"` + strings.Repeat("鍵", 255) + `"`), strings.Repeat("鍵", 255), true, true},
	{"255 beyond the BMP", call(`"name":"pay","idempotencyKey":"` + strings.Repeat("😀", 255) + `"`), strings.Repeat("😀", 255), true, true},
	{"256 beyond the BMP", call(`"name":"pay","idempotencyKey":"` + strings.Repeat("😀", 256) + `"`), "", false, true},
	{"255 escaped", call(`"name":"pay","idempotencyKey":"` + strings.Repeat(`\ud83d\ude00`, 255) + `"`), strings.Repeat("😀", 255), true, true},
	{"256 escaped", call(`"name":"pay","idempotencyKey":"` + strings.Repeat(`\u00e9`, 256) + `"`), "", false, true},
	{"a place's name elsewhere", call(`"name":"pay","idempotency_key":"k","_meta":{"idempotencyKey":"k"},"arguments":{"idempotencyKey":"k","x":{"idempotency_key":"k"}}`), "", true, false},
	{"a place's name in another case", call(`"name":"pay","IdempotencyKey":"k"`), "", true, false},
	{"_meta a string", call(`"name":"pay","_meta":"k"`), "", true, false},
	{"_meta a list", call(`"name":"pay","_meta":["k"]`), "", true, false},
}

func TestKeyInTheBody(t *testing.T) {
	for _, c := range keys {
		t.Run(c.name, func(t *testing.T) {
			r := read(c.body)
			if r.Kind != mcp.ToolCall {
				t.Fatalf("%s: kind %d", c.body, r.Kind)
			}
			key, ok := r.Key()
			if !ok {
				key = nil
			}
			if string(key) != c.key || ok != c.ok || r.Keyed != c.keyed {
				t.Errorf("%s\n got %q ok=%v keyed=%v\nwant %q ok=%v keyed=%v", c.body, key, ok, r.Keyed, c.key, c.ok, c.keyed)
			}
			if ok && c.key == "" && key != nil {
				t.Error("a key that is not nil where there is none")
			}
		})
	}
}

func TestConfiguredPlaces(t *testing.T) {
	body := []byte(call(`"name":"pay","idempotencyKey":"default","arguments":{"meta":{"idempotency-key":"k"},"list":["x",{"k":"l"}]}`))
	for _, c := range []struct {
		places []string
		key    string
		ok     bool
	}{
		{nil, "", true},
		{[]string{"/arguments/meta/idempotency-key"}, "k", true},
		{[]string{"/arguments/list/1/k"}, "l", true},
		{[]string{"/arguments/list/0"}, "x", true},
		{[]string{"/arguments/list/2"}, "", true},
		{[]string{"/arguments/meta"}, "", false},
		{[]string{"/arguments/meta/idempotency-key", "/arguments/list/1/k"}, "", false},
	} {
		var r mcp.Request
		r.Read(body, c.places)
		key, ok := r.Key()
		if string(key) != c.key || ok != c.ok || r.Keyed != (c.key != "" || !c.ok) {
			t.Errorf("%v: %q %v keyed=%v", c.places, key, ok, r.Keyed)
		}
	}
}

// A broken body is keyed when a key place was read whole before the first defect.
func TestKeyedOnBrokenBody(t *testing.T) {
	for _, c := range []struct {
		name string
		body string
		end  string // up to and with this, the place has been read
	}{
		{"SEP-3182's place", call(`"idempotencyKey":"k","name":"pay","arguments":{"a":[1]}`), `"k"`},
		{"place in _meta", call(`"_meta":{"callonce.dev/idempotency-key":"k","t":1},"name":"pay"`), `"k"`},
		{"place in arguments", call(`"name":"pay","arguments":{"x":"y","idempotency_key":"k","a":[1]}`), `"k"`},
		{"place at the end", call(`"name":"pay","arguments":{"idempotency_key":"k"}`), `"k"`},
		{"a number must have ended", call(`"name":"pay","idempotencyKey":12,"arguments":{}`), `12,`},
		{"an object must have ended", call(`"name":"pay","idempotencyKey":{"a":{}},"arguments":{}`), `{"a":{}}`},
		{"an escaped place", call(`"idempotency\u004bey":"k","name":"pay"`), `"k"`},
		{"params before method", `{"params":{"name":"pay","idempotencyKey":"k"},"id":7,"method":"tools/call"}`, `"k"`},
		{"in a batch", "[" + call(`"name":"pay","idempotencyKey":"k","arguments":{}`) + "," + argued(`{}`) + "]", `"k"`},
		{"in a batch's second call", "[" + argued(`{}`) + "," + call(`"name":"pay","idempotencyKey":"k","arguments":{}`) + "]", `"k"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := strings.Index(c.body, c.end) + len(c.end)
			for n := range len(c.body) {
				for _, broken := range []string{c.body[:n], c.body[:n] + "!" + c.body[n:], c.body[:n] + "\xff" + c.body[n:]} {
					r := read(broken)
					if r.Offset < 0 {
						continue // still a strict text: the byte fell into a string
					}
					if want := r.Offset >= end; r.Keyed != want {
						t.Fatalf("%s: keyed %v, want %v", broken, r.Keyed, want)
					}
				}
			}
			if r := read(c.body + "!"); r.Kind != mcp.Ambiguous || !r.Keyed {
				t.Errorf("%s!: kind %d, keyed %v", c.body, r.Kind, r.Keyed)
			}
		})
	}
	for _, unkeyed := range []string{
		call(`"name":"pay","idempotencyKey":null,"a":`),
		`{"a":1,"a":2,` + call(`"name":"pay","idempotencyKey":"k"`)[1:],
		call(`"name":"pay","name":"pay","idempotencyKey":"k"`),
		call(`"name":"pay","arguments":{"a":1,"a":1,"idempotency_key":"k"}`),
		"\xEF\xBB\xBF" + call(`"name":"pay","idempotencyKey":"k"`),
		call(`"name":"pay","arguments":{"idempotency_key":"\ud800"}`),
		call(`"name":"pay","arguments":{"a":` + nest(200) + `,"idempotency_key":"k"}`),
		`{"id":7,"method":"tools/call","params":{},"params":{"idempotencyKey":"k"}}`,
	} {
		if r := read(unkeyed); r.Kind != mcp.Ambiguous || r.Keyed {
			t.Errorf("%s: kind %d, keyed %v", unkeyed, r.Kind, r.Keyed)
		}
	}
}

// Bodies that are strict and still ambiguous tell whether they are keyed, too.
func TestKeyedOnAmbiguousBody(t *testing.T) {
	for _, body := range []string{
		`{"method":"tools/call","params":{"name":"pay","idempotencyKey":"k"}}`,
		`{"id":7,"Method":"x","method":"tools/call","params":{"name":"pay","idempotencyKey":"k"}}`,
		`{"id":7,"METHOD":"tools/call","params":{"name":"pay","idempotencyKey":"k"}}`,
		call(`"name":7,"idempotencyKey":"k"`),
		call(`"name":"pay","Name":"x","idempotencyKey":"k"`),
		call(`"name":"pay","arguments":[],"idempotencyKey":"k"`),
		call(`"name":"pay","arguments":[],"idempotencyKey":7`),
	} {
		for _, keyed := range []bool{true, false} {
			if !keyed {
				body = strings.NewReplacer(`"idempotencyKey":"k"`, `"idempotencyKey":null`, `"idempotencyKey":7`, `"idempotencyKey":null`).Replace(body)
			}
			if r := read(body); r.Kind != mcp.Ambiguous || r.Keyed != keyed {
				t.Errorf("%s: kind %d, keyed %v, want %v", body, r.Kind, r.Keyed, keyed)
			}
		}
	}
}
