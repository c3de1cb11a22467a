package ledger

import "math/bits"

// Digest is a 64-bit digest of a text, for the counts by principal and scope: SipHash-2-4
// keyed with the salt that all workers of a process share, so that nobody can choose a
// text that counts as another's. It costs a tenth of a SHA-256, and means nothing to
// another process.
func (s *Shared) Digest(text []byte) uint64 { return sipHash(s.salt[0], s.salt[1], text) }

// sipHash is SipHash-2-4 (Aumasson and Bernstein, 2012).
func sipHash(k0, k1 uint64, text []byte) uint64 {
	s := sip{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	last := uint64(len(text)) << 56
	for ; len(text) >= 8; text = text[8:] {
		s.add(le.Uint64(text))
	}
	for i, c := range text {
		last |= uint64(c) << (8 * i)
	}
	s.add(last)
	s[2] ^= 0xff
	s.rounds(4)
	return s[0] ^ s[1] ^ s[2] ^ s[3]
}

type sip [4]uint64

func (s *sip) add(word uint64) {
	s[3] ^= word
	s.rounds(2)
	s[0] ^= word
}

func (s *sip) rounds(n int) {
	v0, v1, v2, v3 := s[0], s[1], s[2], s[3]
	for range n {
		v0 += v1
		v2 += v3
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 = bits.RotateLeft64(v0, 32)
		v2 += v1
		v0 += v3
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 = bits.RotateLeft64(v2, 32)
	}
	*s = sip{v0, v1, v2, v3}
}
