package canonical_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/callonce/callonce/canonical"
)

func checkOrder(t rapid.TB, a, b string) {
	t.Helper()
	if got, want := canonical.CompareNames([]byte(a), []byte(b)), compareUTF16(a, b); got != want {
		t.Fatalf("%q against %q: %d, in UTF-16 %d", a, b, got, want)
	}
}

// TestOrderOfCodePoints compares names around every place where the lengths of UTF-8
// and UTF-16 change.
func TestOrderOfCodePoints(t *testing.T) {
	var runes []rune
	for _, edge := range []rune{0, 0x20, 0x7f, 0x80, 0x7ff, 0x800, 0xfff, 0x1000, 0xd7ff, 0xe000, 0xefff, 0xf000, 0xfb33, 0xfffd,
		0xffff, 0x10000, 0x1f600, 0x3ffff, 0x40000, 0xfffff, 0x100000, 0x10ffff} {
		for c := edge - 1; c <= edge+1; c++ {
			if c >= 0 && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) {
				runes = append(runes, c)
			}
		}
	}
	prefixes := []string{"", "a", "é", "€", "😀", "seven b", "eight by"}
	for _, x := range runes {
		for _, y := range runes {
			for _, p := range prefixes {
				checkOrder(t, p+string(x), p+string(y))
				checkOrder(t, p+string(x)+"a", p+string(y))
			}
		}
		for _, p := range prefixes {
			checkOrder(t, p, p+string(x))
		}
	}
}

func TestOrderOfNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shared := anyText.Draw(t, "shared")
		checkOrder(t, shared+anyText.Draw(t, "a"), shared+anyText.Draw(t, "b"))
	})
}

// TestOrderOfMembers sorts objects of all sizes around those at which the sort
// changes its ways, with names that share much, little or nothing.
func TestOrderOfMembers(t *testing.T) {
	sizes := []int{0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 100, 1000}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom(sizes).Draw(t, "size")
		shared := rapid.SampledFrom([]string{"", "x", "€", "😀", "a long beginning that all names share, ", "éééé"}).Draw(t, "shared")
		tails := rapid.SampledFrom([]int{1, 2, 12}).Draw(t, "tails")
		r := anyRand.Draw(t, "names")
		alphabet := []rune("ab\x00zé€\ufb33\uffff😀\U0010ffff")
		names := map[string]bool{}
		for i := 0; len(names) < size; i++ {
			var b strings.Builder
			b.WriteString(shared)
			for range r.IntN(tails + 1) {
				b.WriteRune(alphabet[r.IntN(len(alphabet))])
			}
			if i > 2*size {
				b.WriteString(strconv.Itoa(i))
			}
			names[b.String()] = true
		}
		v := object{}
		for name := range names {
			v = append(v, member{name, name})
		}
		text := spellText(r, v)
		if got := mustForm(t, text); got != canonicalOf(v) {
			t.Fatalf("%q\ngave %q\nwant %q", text, got, canonicalOf(v))
		}
		var doc canonical.Doc
		if err := doc.Parse(text); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range doc.Sorted(doc.Root()) {
			got = append(got, string(doc.Name(n)))
			if string(doc.Text(n)) != string(doc.Name(n)) {
				t.Fatalf("Sorted: name %q, value %q", doc.Name(n), doc.Text(n))
			}
		}
		if !slices.IsSortedFunc(got, compareUTF16) || len(got) != size {
			t.Fatalf("Sorted gave %q", got)
		}
	})
}
