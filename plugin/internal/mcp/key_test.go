package mcp_test

import (
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

// keys are well-formed calls with what stands in their key sources.
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
	{"empty beside a key in an argument", call(`"name":"pay","idempotencyKey":"","arguments":{"idempotency_key":"k"}`), "", false, true},
	{"an empty argument is absent", argued(`{"idempotency_key":""}`), "", true, false},
	{"an empty argument beside a key", call(`"name":"pay","idempotencyKey":"k","arguments":{"idempotency_key":""}`), "k", true, true},
	{"empty in _meta", call(`"name":"pay","_meta":{"callonce.dev/idempotency-key":""}`), "", false, true},
	{"an argument of white space", argued(`{"idempotency_key":" "}`), " ", true, true},
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
	{"a key source's name elsewhere", call(`"name":"pay","idempotency_key":"k","_meta":{"idempotencyKey":"k"},"arguments":{"idempotencyKey":"k","x":{"idempotency_key":"k"}}`), "", true, false},
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
		pointers []string
		key      string
		ok       bool
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
		r.Read(body, c.pointers)
		key, ok := r.Key()
		if string(key) != c.key || ok != c.ok || r.Keyed != (c.key != "" || !c.ok) {
			t.Errorf("%v: %q %v keyed=%v", c.pointers, key, ok, r.Keyed)
		}
	}
}

// Whether a broken body is keyed does not hang on where it is broken: once the name of a
// key source is there whole, it is.
func TestKeyedOnBrokenBody(t *testing.T) {
	for _, c := range []struct {
		name string
		body string
		last string // name of the key source, as it is spelled
	}{
		{"SEP-3182's place", call(`"idempotencyKey":"k","name":"pay","arguments":{"a":[1]}`), `"idempotencyKey"`},
		{"place in _meta", call(`"_meta":{"callonce.dev/idempotency-key":"k","t":1},"name":"pay"`), `"callonce.dev/idempotency-key"`},
		{"place in arguments", call(`"name":"pay","arguments":{"x":"y","idempotency_key":"k","a":[1]}`), `"idempotency_key"`},
		{"place at the end", call(`"name":"pay","arguments":{"idempotency_key":"k"}`), `"idempotency_key"`},
		{"a number", call(`"name":"pay","idempotencyKey":12,"arguments":{}`), `"idempotencyKey"`},
		{"an object", call(`"name":"pay","idempotencyKey":{"a":{}},"arguments":{}`), `"idempotencyKey"`},
		{"an escaped place", call(`"idempotency\u004bey":"k","name":"pay"`), `"idempotency\u004bey"`},
		{"params before method", `{"params":{"name":"pay","idempotencyKey":"k"},"id":7,"method":"tools/call"}`, `"idempotencyKey"`},
		{"in a batch", "[" + call(`"name":"pay","idempotencyKey":"k","arguments":{}`) + "," + argued(`{}`) + "]", `"idempotencyKey"`},
		{"in a batch's second call", "[" + argued(`{}`) + "," + call(`"name":"pay","idempotencyKey":"k","arguments":{}`) + "]", `"idempotencyKey"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := strings.Index(c.body, c.last)
			to := from + len(c.last)
			for n := range len(c.body) {
				inside := n > from && n < to
				for broken, want := range map[string]bool{
					c.body[:n]:                       n >= to,
					c.body[:n] + "!" + c.body[n:]:    !inside,
					c.body[:n] + "\xff" + c.body[n:]: !strings.Contains(c.last, `\`) || !inside,
				} {
					r := read(broken)
					if r.Offset < 0 || inside && strings.Contains(c.last, `\`) {
						continue // still a strict text: the byte fell into a string
					}
					if r.Keyed != want {
						t.Fatalf("%s: keyed %v, want %v", broken, r.Keyed, want)
					}
				}
			}
			if r := read(c.body + "!"); r.Kind != mcp.Ambiguous || !r.Keyed {
				t.Errorf("%s!: kind %d, keyed %v", c.body, r.Kind, r.Keyed)
			}
		})
	}
}

// What makes a body ambiguous, with its key before it and behind it: either way it is keyed,
// and without a key it is not.
func TestKeyBehindADefect(t *testing.T) {
	keyed := call(`"name":"pay","idempotencyKey":"k"`)
	utf16 := func(s string) string {
		var b strings.Builder
		for _, c := range s {
			b.WriteByte(byte(c))
			b.WriteByte(byte(c >> 8))
		}
		return b.String()
	}
	for _, body := range []string{
		`{"a":1,"a":2,` + keyed[1:],
		call(`"name":"pay","name":"pay","idempotencyKey":"k"`),
		call(`"name":"pay","arguments":{"a":1,"a":1,"idempotency_key":"k"}`),
		call(`"name":"pay","arguments":{"a":1,"a":1},"idempotencyKey":"k"`),
		call(`"name":"pay","idempotencyKey":"k","arguments":{"a":1,"a":1}`),
		`{"id":7,"method":"tools/call","params":{},"params":{"idempotencyKey":"k"}}`,
		`{"id":7,"method":"tools/call","params":{"idempotencyKey":"k"},"params":{}}`,
		call(`"name":"pay","arguments":{},"arguments":{"idempotency_key":"k"}`),
		call(`"name":"pay","arguments":{"idempotency_key":null,"idempotency_key":"k"}`),
		call(`"name":"pay","arguments":{"idempotency_key":"","idempotency_key":"k"}`),
		call(`"name":"pay","_meta":{"callonce.dev/idempotency-key":null},"_meta":{"callonce.dev\/idempotency-key":"k"}`),
		"\xEF\xBB\xBF" + keyed,
		"\xEF\xBB\xBF" + `{"a":1,"a":1,` + keyed[1:],
		call(`"name":"pay","arguments":{"a":` + nest(200) + `,"idempotency_key":"k"}`),
		call(`"name":"pay","arguments":{"a":` + nest(200_000) + `,"idempotency_key":"k"}`),
		call(`"name":"pay","arguments":{"a":"\xff","idempotency_key":"k"}`),
		call("\"name\":\"pay\",\"arguments\":{\"a\":\"\n\",\"idempotency_key\":\"k\"}"),
		call(`"name":"pay","arguments":{"\ud83d":0,"idempotency_key":"k"}`),
		call(`"name":"pay \ud83d","arguments":{"idempotency_key":"k"}`),
		call(`"name":"pay","arguments":{"a":NaN,"idempotency_key":"k"}`),
		call(`"name":"pay","arguments":{/* x */"idempotency_key":"k"}`),
		call(`"name":"pay","arguments":{'idempotency_key':'k'}`),
		call(`"name":"pay","arguments":{"a":01,"idempotency\u005Fkey":"k"}`),
		`{"id":7,"method":"tools/call","Params":{"name":"pay","idempotencyKey":"k"}}`,
		`{"id":7,"method":"tools/call","params":{"name":"pay"},"PARAMS":{"idempotencyKey":"k"}}`,
		`{"id":7,"method":"tools/call","param\u017f":{"name":"pay","idempotencyKey":"k"}}`,
		call(`"name":"pay","Arguments":{"idempotency_key":"k"}`),
		call(`"Name":"pay","name":"pay","idempotencyKey":"k"`),
		`{"id":7,"Method":"tools/call","params":{"name":"pay","idempotencyKey":"k"}}`,
		`{"method":"tools/call","params":{"name":"pay","idempotencyKey":"k"}}`,
		`{"id":7,"method":"tools/call\udead","params":{"name":"pay","idempotencyKey":"k"}}`,
		`{"id":"\udead","method":"tools/call","params":{"name":"pay","idempotencyKey":"k"}}`,
		`[` + argued(`{}`) + `,` + keyed + `]`,
		`[` + argued(`{}`) + `,{"id":1,"Params":{"idempotencyKey":"k"}}]`,
		keyed + keyed,
		argued(`{}`) + "\n" + keyed,
		utf16(keyed),
		"\xff\xfe" + utf16(keyed),
	} {
		if r := read(body); r.Kind != mcp.Ambiguous || !r.Keyed {
			t.Errorf("%.300s: kind %d, keyed %v", body, r.Kind, r.Keyed)
		}
		gone := strings.NewReplacer("idempotency", "xdempotency", utf16("idempotency"), utf16("xdempotency")).Replace(body)
		if r := read(gone); r.Kind != mcp.Ambiguous || r.Keyed {
			t.Errorf("%.300s: kind %d, keyed %v without a key", gone, r.Kind, r.Keyed)
		}
	}
	// Where the syntax holds, only what stands in a key source is a key.
	for _, body := range []string{
		`{"a":1,"a":2,` + call(`"name":"pay","arguments":{"idempotencyKey":"k","a":["idempotency_key"],"b":{"idempotency_key":"k"}}`)[1:],
		"\xEF\xBB\xBF" + call(`"name":"pay","arguments":{"note":"idempotency_key"},"idempotency_key":"k"`),
		"\xEF\xBB\xBF" + `{"idempotencyKey":"k","arguments":{"idempotency_key":"k"},"x":{"params":{"idempotencyKey":"k"}}}`,
		"\xEF\xBB\xBF" + `[[{"x":` + keyed + `}]]`,
		"\xEF\xBB\xBF" + `"idempotencyKey"`,
		"\xEF\xBB\xBF" + call(`"idempotencyKey":null,"arguments":{"idempotency_key":"","a":{}},"_meta":{"callonce.dev/idempotency-key":null}`),
		call(`"name":"pay","arguments":{"a":` + nest(200) + `,"b":[{"idempotency_key":"k"}]}`),
		"",
	} {
		if r := read(body); r.Kind != mcp.Ambiguous || r.Keyed {
			t.Errorf("%.300s: kind %d, keyed %v", body, r.Kind, r.Keyed)
		}
	}
	// A pointer that goes through a list, and one with escapes.
	for pointer, body := range map[string]string{
		"/arguments/list/1/k":     call(`"arguments":{"list":[{},{"k":"x"}],"list":0}`),
		"/arguments/a~1b~0c/k":    call(`"arguments":{"a/b~c":{"k":"x"},"a/b~c":{}}`),
		"/arguments/schlüssel":    call(`"a":1,"a":1,"arguments":{"schl\u00fcssel":"x"}`),
		"/arguments/\U0001F511/k": call(`"a":1,"a":1,"arguments":{"\ud83d\udd11":{"k":1}}`),
	} {
		var r mcp.Request
		if r.Read([]byte(body), []string{pointer}); r.Kind != mcp.Ambiguous || !r.Keyed {
			t.Errorf("%s in %s: kind %d, keyed %v", pointer, body, r.Kind, r.Keyed)
		}
		if r.Read([]byte(strings.ReplaceAll(body, `"k":`, `"l":`)), []string{pointer}); r.Keyed && strings.HasSuffix(pointer, "/k") {
			t.Errorf("%s: keyed without %s", body, pointer)
		}
	}
}

// What is looked for in a body, however hostile, is looked for in its length's time and in
// no memory.
func TestLookingForKeysCostsNothing(t *testing.T) {
	const n = 1 << 20
	for name, unit := range map[string]string{
		"quotes": `"`, "beginnings": `"idempotency_ke`, "brackets": "[", "braces": `{"a":`, "noise": "\"\xff", "escapes": `"\u0069dempotency`, "names": `"params":{"arguments":{`, "halves": `"\ud83d`,
	} {
		body := []byte(`{"id":7,"id":7,"params":` + strings.Repeat(unit, n/len(unit)))
		var r mcp.Request
		r.Read(body, pointers)
		if r.Kind != mcp.Ambiguous || r.Keyed {
			t.Errorf("%s: kind %d, keyed %v", name, r.Kind, r.Keyed)
		}
		if allocs := testing.AllocsPerRun(1, func() { r.Read(body, pointers) }); allocs > 2 {
			t.Errorf("%s: %v allocations", name, allocs)
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
		call(`"name":"pay","arguments":[0],"idempotencyKey":"k"`),
		call(`"name":"pay","arguments":[0],"idempotencyKey":7`),
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
