package mcp

import (
	"strings"
	"testing"
)

// TestCompareNames has every name of up to two of these characters beside every other, as names and as tokens of pointers.
func TestCompareNames(t *testing.T) {
	var names []string
	single := []string{"", "a", "A", "k", "K", "K", "s", "ſ", "z", "{", "[", "@", "`", "_", "-", "0", "~", "/", "é", "É", "\x00", "\x7f"}
	for _, a := range single {
		for _, b := range single[1:] {
			names = append(names, a+b)
		}
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, name := range names {
		for _, other := range append(names, "", name+"x") {
			exact, folded := compare([]byte(name), escape.Replace(other))
			if exact != (name == other) || folded != strings.EqualFold(name, other) {
				t.Errorf("%q and %q: %v, %v", name, other, exact, folded)
			}
		}
	}
}
