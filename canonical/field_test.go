package canonical_test

import (
	"strings"
	"testing"

	"github.com/callonce/callonce/canonical"
)

// The numbers are those of the project's cases from the field, as far as they concern
// this package.

func call(arguments string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":` + arguments + `}}`)
}

func TestCase22NumbersBeyondDoubles(t *testing.T) {
	a, b := call(`{"n":9007199254740992}`), call(`{"n":9007199254740993}`)
	sent := string(a)
	x, errX := canonical.Fingerprint(a)
	y, errY := canonical.Fingerprint(b)
	if errX != nil || errY != nil || x == y {
		t.Errorf("fingerprints equal: %v, errors %v, %v", x == y, errX, errY)
	}
	if string(a) != sent {
		t.Error("the text was changed")
	}
}

func TestCase23NumbersOfOneValue(t *testing.T) {
	for _, same := range [][]string{{"1", "1.0", "1e0", "10e-1"}, {"0", "-0", "-0.0e5"}} {
		for _, token := range same {
			if got := mustForm(t, []byte(token)); got != same[0] {
				t.Errorf("%s gave %s, want %s", token, got, same[0])
			}
		}
	}
	forms := map[string]bool{}
	for _, token := range []string{"1", `"1"`, "1e400", "1e500", "2e400", "1e999999999"} {
		forms[mustForm(t, []byte(token))] = true
	}
	if len(forms) != 6 {
		t.Errorf("six values have the forms %v", forms)
	}
}

func TestCase24OrderOfAstralNames(t *testing.T) {
	const want = `{"😀":1,"` + "\ufb33" + `":2}`
	for _, text := range []string{`{"\ufb33":2,"\ud83d\ude00":1}`, `{"😀":1,"` + "\ufb33" + `":2}`, `{"\uFB33":2,"😀":1}`} {
		if got := mustForm(t, []byte(text)); got != want {
			t.Errorf("%s gave %s", text, got)
		}
	}
}

func TestCase25NeverReplaced(t *testing.T) {
	const before = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":`
	for _, c := range []struct {
		value  string
		reason canonical.Reason
	}{
		{"\"\xed\xa0\x80\"", canonical.NotUTF8},
		{"\"\xff\"", canonical.NotUTF8},
	} {
		text := call(c.value)
		if e := refusal(t, text); e.Offset != len(before)+1 || e.Reason != c.reason {
			t.Errorf("%s: %v", text, e)
		}
		if print, err := canonical.Fingerprint(text); err == nil || print != [32]byte{} {
			t.Errorf("%s has the fingerprint %x", text, print)
		}
	}
}

// What JavaScript's slice makes of an emoji stands for itself: no two of these are one.
func TestCase25HalvesOfPairs(t *testing.T) {
	prints := map[[32]byte]string{}
	for _, value := range []string{`"\ud800"`, `"\ud801"`, `"\ude00\ud83d"`, `"\ud83d\ude00"`, `"\ufffd"`, `"\ufffd\ufffd"`, `"\\ud800"`, `"\\\\ud800"`, `""`, `"d800"`} {
		print, err := canonical.Fingerprint(call(value))
		if err != nil {
			t.Errorf("%s: %v", value, err)
		}
		if other, ok := prints[print]; ok {
			t.Errorf("%s and %s have one fingerprint", value, other)
		}
		prints[print] = value
	}
	upper, _ := canonical.Fingerprint(call(`"\uD800"`))
	if prints[upper] != `"\ud800"` {
		t.Error("the case of an escape's digits counts")
	}
}

func TestCase26Duplicates(t *testing.T) {
	for _, text := range []string{
		`{"id":1,"method":"tools/call","id":1}`,
		`{"method":"tools/call","params":{"name":"a","name":"a"}}`,
		string(call(`{"a":1,"a":1}`)),
		string(call(`{"a":1,"b":2,"c":{"d":[[{"e":0,"f":1,"e":0}]]}}`)),
		string(call(`{"a":1,"\u0061":1}`)),
		string(call(`{"\u0061":1,"a":1}`)),
		string(call(`{"\u0061":1,"\u0061":1}`)),
		string(call(`{"é":1,"\u00e9":1}`)),
		string(call(`{"😀":1,"x":0,"\ud83d\ude00":1}`)),
		string(call(`{"/":1,"\/":1}`)),
		string(call(`{"":1,"a":0,"":1}`)),
		string(call(`{"a\u0000":1,"a":0,"a\u0000":1}`)),
	} {
		if e := refusal(t, []byte(text)); e.Reason != canonical.DuplicateName || text[e.Offset] != '"' || text[e.First] != '"' {
			t.Errorf("%s: %v", text, e)
		}
	}
	for _, text := range []string{
		`{"a":{"a":{"a":1}}}`, `[{"a":1},{"a":1}]`, `{"a":1,"A":1}`, `{"a":1,"a\u0000":1}`, `{"a":1,"":1}`, "{\"\u00e9\":1,\"e\u0301\":1}",
		`{"a":"a","b":"a"}`, `{"\\u0061":1,"a":1}`,
	} {
		mustForm(t, []byte(text))
	}
}

func TestCase27Depth(t *testing.T) {
	for _, depth := range []int{1000, 10_000, 500_000} {
		deep := call(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		if e := refusal(t, deep); e.Reason != canonical.TooDeep {
			t.Errorf("depth %d: %v", depth, e)
		}
	}
}
