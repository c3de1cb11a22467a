package canonical_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/callonce/callonce/canonical"
)

// Every text that keeps to a limit is read as without one, and every other is refused
// where it goes beyond.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		text   string
		limit  int
		offset int // -1 = taken
	}{
		{`[0,0,0]`, 4, -1},
		{`[0,0,0]`, 3, 5},
		{`[0,[],{}]`, 4, -1},
		{`[0,[],{}]`, 3, 6},
		{`{"a":0,"b":{"c":1}}`, 7, -1},
		{`{"a":0,"b":{"c":1}}`, 5, 16}, // its name was read, and finds no room for its value
		{`7`, 1, -1},
		{` [ 1 , 2 ] `, 2, 7},
		{`[0,0,0]`, 0, -1},
	} {
		var doc canonical.Doc
		doc.Limit(c.limit)
		for range 2 { // also when used again, and shrunk
			err := doc.Parse([]byte(c.text))
			var e *canonical.Error
			switch {
			case c.offset < 0 && err != nil:
				t.Errorf("%s at most %d: %v", c.text, c.limit, err)
			case c.offset < 0:
			case !errors.As(err, &e) || e.Reason != canonical.TooMany || e.Offset != c.offset:
				t.Errorf("%s at most %d: %v, want a refusal at %d", c.text, c.limit, err, c.offset)
			}
			if got := string(doc.Append(nil, doc.Root())); c.offset < 0 && got != strings.ReplaceAll(c.text, " ", "") {
				t.Errorf("%s at most %d: read as %s", c.text, c.limit, got)
			}
			doc.Shrink(0)
		}
	}
}

// What was read before the limit can be looked at, as before any other defect.
func TestLimitLeavesWhatWasRead(t *testing.T) {
	var doc canonical.Doc
	doc.Limit(8)
	if doc.Parse([]byte(`{"id":7,"params":{"key":"k","list":[1,2,3,4]}}`)) == nil {
		t.Fatal("taken")
	}
	root := doc.Root()
	if n := doc.Member(root, "id"); !doc.Complete(n) || string(doc.Raw(n)) != "7" {
		t.Error("the id is lost")
	}
	if n := doc.Pointer(root, "/params/key"); !doc.Complete(n) || string(doc.Text(n)) != "k" {
		t.Error("the key is lost")
	}
	if doc.Complete(doc.Pointer(root, "/params/list")) {
		t.Error("the list was not read whole")
	}
}

func TestLimitBoundsMemory(t *testing.T) {
	text := []byte("[0" + strings.Repeat(",0", 4<<20) + "]")
	var doc canonical.Doc
	doc.Limit(1 << 16)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if doc.Parse(text) == nil {
		t.Fatal("taken")
	}
	runtime.ReadMemStats(&after)
	// 24 bytes an entry, and what was outgrown on the way.
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}
