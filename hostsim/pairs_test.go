package hostsim

import (
	"slices"
	"testing"
)

func TestPairs(t *testing.T) {
	for _, lines := range [][]Header{nil, {{Name: "a", Value: "1"}}, {{Name: "a", Value: ""}, {Name: "", Value: "b"}, {Name: "a", Value: "1\x00"}}} {
		if got := parsePairs(formatPairs(lines)); !slices.Equal(got, lines) {
			t.Errorf("got %q, want %q", got, lines)
		}
	}
	good := formatPairs([]Header{{Name: "name", Value: "value"}})
	for name, b := range map[string][]byte{
		"nothing": nil, "cut": good[:len(good)-1], "longer": append(slices.Clone(good), 0), "count too large": {255, 255, 255, 255},
		"no end of the name": append(append(slices.Clone(good[:16]), 'X'), good[17:]...),
	} {
		if got := parsePairs(b); len(got) != 0 {
			t.Errorf("%s: got %q, want none", name, got)
		}
	}
}

func FuzzPairs(f *testing.F) {
	f.Add(formatPairs([]Header{{Name: "a", Value: "1"}, {Name: "b", Value: ""}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if lines := parsePairs(b); len(lines) > 0 && string(formatPairs(lines)) != string(b) {
			t.Errorf("%q read as %q", b, lines)
		}
	})
}
