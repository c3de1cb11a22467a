package policy

import (
	"strings"
	"testing"
)

// Of all ASCII characters a plain name has letters, digits and three signs.
func TestPlain(t *testing.T) {
	for c := range rune(128) {
		want := strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", c)
		if got := plain("a" + string(c)); got != want {
			t.Errorf("%q: %v, want %v", c, got, want)
		}
	}
	if plain("é") {
		t.Error("a letter beyond ASCII is plain")
	}
}
