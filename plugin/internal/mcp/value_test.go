package mcp_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// ends tells, by the strict reader, after how many bytes the outermost object or
// array of text has ended, and after how many something stands behind it; -1 for
// never. known is false for what is no object or array with perhaps something behind
// it: such a body is malformed as a whole, and Value may say of it what it likes.
func ends(text string) (done, trailed int, known bool) {
	var doc canonical.Doc
	done, trailed = -1, -1
	err := doc.Parse([]byte(text))
	kind := doc.Kind(doc.Root())
	container := kind == canonical.Object || kind == canonical.Array
	if container {
		_, done = doc.Span(doc.Root())
	}
	var defect *canonical.Error
	if errors.As(err, &defect) {
		return done, defect.Offset + 1, container && defect.Reason == canonical.WantEnd
	}
	return done, trailed, true
}

// checkValue feeds text in chunks that end at the cuts, and looks after each.
func checkValue(t *testing.T, text string, cuts []int) {
	t.Helper()
	done, trailed, known := ends(text)
	var v, whole mcp.Value
	from := 0
	for _, cut := range append(cuts, len(text)) {
		v.Feed([]byte(text[from:cut]))
		from = cut
		if known && (v.Done != (done >= 0 && cut >= done) || v.Trailed != (trailed >= 0 && cut >= trailed)) {
			t.Fatalf("%q after %d bytes: done %v, trailed %v; it ends at %d, and is followed at %d", text, cut, v.Done, v.Trailed, done, trailed)
		}
	}
	if whole.Feed([]byte(text)); whole != v {
		t.Fatalf("%q cut at %v: %+v, whole %+v", text, cuts, v, whole)
	}
}

func TestValue(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, ` {"a":[{}]} `, "\n[1,\"]\"]\r\n\t", `{"}":"{"}`, `["\"]"]`, `["\\"]`, `["\\\"]"]`, `["\u005d"]`,
		`{}{}`, `{} x`, `[]]`, `{}"`, "[] \x00", "{}\xff", `[] //`, `{}` + "\u00a0",
		`"{}"`, `"\"{}"`, `7`, `null`, `true `, `"a" {}`,
		`{`, `{"a":"}`, `{"a":"\`, `[[]`,
	} {
		var all []int
		for cut := range len(text) {
			checkValue(t, text, []int{cut})
			all = append(all, cut)
		}
		checkValue(t, text, all)
	}
}

func TestValueAtRandom(t *testing.T) {
	behind := []string{"", "", "\n", " \r\n\t", "x", " {}", "]", "}", "\"", "\x00", "\n\n["}
	for seed := range uint64(5_000) {
		a := author{rand.New(rand.NewPCG(seed, 0))}
		text := a.space() + a.spell(a.value(4)) + behind[a.IntN(len(behind))]
		checkValue(t, text, randomCuts(a.Rand, len(text)))
		checkValue(t, text[:a.IntN(len(text)+1)], nil)
		broken := []byte(text)
		broken[a.IntN(len(broken))] = "{}[]\"\\,x "[a.IntN(9)]
		checkValue(t, string(broken), randomCuts(a.Rand, len(broken)))
	}
}

// A body of 500,000 brackets costs Value nothing (case 27).
func TestValueDepth(t *testing.T) {
	var v mcp.Value
	v.Feed([]byte(strings.Repeat("[", 500_000)))
	v.Feed([]byte(strings.Repeat("]", 499_999)))
	if v.Done {
		t.Fatal("done one bracket early")
	}
	v.Feed([]byte("]"))
	if !v.Done || v.Trailed {
		t.Fatalf("%+v", v)
	}
}
