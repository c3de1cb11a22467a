package abi

import (
	"slices"
	"testing"

	"github.com/callonce/callonce/hostsim/internal/header"
)

func TestPairs(t *testing.T) {
	for _, lines := range [][]header.Line{nil, {{Name: "a", Value: "1"}}, {{Name: "a", Value: ""}, {Name: "", Value: "b"}, {Name: "a", Value: "1\x00"}}} {
		if got := ParsePairs(FormatPairs(lines)); !slices.Equal(got, lines) {
			t.Errorf("got %q, want %q", got, lines)
		}
	}
	good := FormatPairs([]header.Line{{Name: "name", Value: "value"}})
	for name, b := range map[string][]byte{
		"nothing": nil, "cut": good[:len(good)-1], "longer": append(slices.Clone(good), 0), "count too large": {255, 255, 255, 255},
		"no end of the name": append(append(slices.Clone(good[:16]), 'X'), good[17:]...),
	} {
		if got := ParsePairs(b); len(got) != 0 {
			t.Errorf("%s: got %q, want none", name, got)
		}
	}
}

func FuzzPairs(f *testing.F) {
	f.Add(FormatPairs([]header.Line{{Name: "a", Value: "1"}, {Name: "b", Value: ""}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if lines := ParsePairs(b); len(lines) > 0 && string(FormatPairs(lines)) != string(b) {
			t.Errorf("%q read as %q", b, lines)
		}
	})
}
