package record

import "testing"

// The example of the paper (appendix A), and lengths around a word, from the authors'
// reference code (vectors.h, read as little endian).
func TestSipHash(t *testing.T) {
	text := make([]byte, 64)
	for i := range text {
		text[i] = byte(i)
	}
	const k0, k1 = 0x0706050403020100, 0x0f0e0d0c0b0a0908
	for n, want := range map[int]uint64{
		0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 7: 0xab0200f58b01d137, 8: 0x93f5f5799a932462,
		15: 0xa129ca6149be45e5, 16: 0x3f2acc7f57c29bdb, 63: 0x958a324ceb064572,
	} {
		if got := Digest([2]uint64{k0, k1}, text[:n]); got != want {
			t.Errorf("%d bytes: want %#x, got %#x", n, want, got)
		}
	}
}
