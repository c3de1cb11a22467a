package digest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// TestPublishedSums has the examples that NIST publishes with FIPS 180-4.
func TestPublishedSums(t *testing.T) {
	for text, want := range map[string]string{
		"":    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
		strings.Repeat("a", 1_000_000):                             "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
	} {
		if got := sum([]byte(text)); hex.EncodeToString(got[:]) != want {
			t.Errorf("%.70q: %x, want %s", text, got, want)
		}
	}
}

// TestSumsAreThoseOfTheLibrary has every length around the first blocks, and random texts.
func TestSumsAreThoseOfTheLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 5000)
	for i := range text {
		text[i] = byte(r.Uint32())
	}
	for n := range 300 {
		for _, p := range [][]byte{text[:n], text[n : n+n*7], bytes.Repeat([]byte{0xff}, n)} {
			if got, want := sum(p), sha256.Sum256(p); got != want {
				t.Fatalf("%d bytes: %x, want %x", len(p), got, want)
			}
			if Sum(p) != sum(p) {
				t.Fatalf("%d bytes: Sum is another", len(p))
			}
		}
	}
	if allocs := testing.AllocsPerRun(10, func() { sum(text) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkSum(b *testing.B) {
	for _, n := range []int{183, 400, 64 << 10} {
		p := make([]byte, n)
		for _, f := range []struct {
			name string
			sum  func([]byte) [Size]byte
		}{{"library", sha256.Sum256}, {"here", sum}} {
			b.Run(f.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					f.sum(p)
				}
			})
		}
	}
}
