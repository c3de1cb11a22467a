package abi

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

func TestPairs(t *testing.T) {
	pairs := [][2]string{{":method", "POST"}, {"a", ""}, {"", "b"}, {"x-nul", "c\x00d"}}
	b := appendPairs(nil, pairs)
	got, ok := readPairs(nil, b)
	if !ok || !slices.Equal(got, pairs) {
		t.Errorf("expected %q, found %q, %v", pairs, got, ok)
	}
	if got, ok := readPairs(nil, nil); !ok || len(got) != 0 {
		t.Errorf("nothing: found %q, %v", got, ok)
	}
	// Cut short anywhere, it is no list, and nothing beyond its end is looked at.
	whole := append(bytes.Clone(b), bytes.Repeat([]byte{0xA5}, 32)...)
	for n := 1; n < len(b); n++ {
		if got, ok := readPairs(nil, whole[:n:n]); ok {
			t.Errorf("%d of %d bytes: found %q", n, len(b), got)
		}
	}
}

// A number of pairs, or a length, that the bytes do not bear out is refused.
func TestPairsThatLie(t *testing.T) {
	b := appendPairs(nil, [][2]string{{"a", "b"}, {"c", "d"}})
	for _, at := range []int{0, 4, 8, 12, 16} {
		for _, lie := range []uint32{3, 4, 1 << 16, 1<<29 - 1, 1 << 29, 1<<29 + 2, 1 << 31, 1<<32 - 2, 1<<32 - 1} {
			bad := bytes.Clone(b)
			binary.LittleEndian.PutUint32(bad[at:], lie)
			if got, ok := readPairs(nil, bad); ok {
				t.Errorf("%d at byte %d: found %q", lie, at, got)
			}
		}
	}
}

// Headers are there, or an error says why not; lines that were read before are never among them.
func TestReadHeaders(t *testing.T) {
	good := appendPairs(nil, [][2]string{{":method", "POST"}, {"a", "b"}})
	for name, c := range map[string]struct {
		b    []byte
		st   status
		want error
	}{
		"good": {good, statusOK, nil}, "cut": {good[:len(good)-3], statusOK, statusParseFailure}, "none": {nil, statusOK, statusNotFound},
		"an empty list": {appendPairs(nil, nil), statusOK, statusNotFound}, "no": {nil, statusInvalidMemory, statusInvalidMemory},
		"no, with bytes": {good, statusNotFound, statusNotFound},
	} {
		old := [][2]string{{"old", "line"}, {"another", "one"}, {"and", "more"}}
		lines, err := readHeaders(old, c.b, c.st)
		if err != c.want || (err == nil) != (len(lines) == 2) || err != nil && len(lines) > 0 {
			t.Errorf("%s: %q, %v, want %v", name, lines, err, c.want)
		}
	}
}

func FuzzPairs(f *testing.F) {
	f.Add(appendPairs(nil, [][2]string{{"a", "b"}, {"c", "d"}}))
	f.Add([]byte{255, 255, 255, 255, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		guarded := append(bytes.Clone(b), bytes.Repeat([]byte{0xA5}, 32)...)
		pairs, ok := readPairs(nil, guarded[:len(b):len(b)])
		if lines, err := readHeaders(nil, b, statusOK); (err == nil) != (ok && len(pairs) > 0) || len(lines) > 0 && err != nil {
			t.Errorf("%d lines and %v of a list that is one: %v", len(lines), err, ok)
		}
		if !ok || len(b) == 0 {
			return
		}
		// The bytes behind names and values, and behind the list, are not looked at.
		if again, ok := readPairs(nil, appendPairs(nil, pairs)); !ok || !slices.Equal(again, pairs) {
			t.Errorf("%q was read as %q", pairs, again)
		}
	})
}

func TestPath(t *testing.T) {
	if got := string(appendPath(nil, []string{"a", "", "b"})); got != "a\x00\x00b" {
		t.Errorf("found %q", got)
	}
}
