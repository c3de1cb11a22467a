package record

import "math/bits"

// Mix spreads a number over all 64 bits: it places rows in pages, ids in buckets and marks in records.
func Mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// mixID spreads a stored id, which is a hash already; the salt keeps where it lies from those who choose keys.
func mixID(id *[32]byte, salt [2]uint64) uint64 {
	h := salt[0]
	for i := 0; i < len(id); i += 8 {
		h = Mix(h^le.Uint64(id[i:])) + salt[1]
	}
	return Mix(h)
}

// Digest is SipHash-2-4 (Aumasson and Bernstein, 2012) of a text under a salt.
func Digest(salt [2]uint64, text []byte) uint64 {
	k0, k1 := salt[0], salt[1]
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

// DigestOf3 is the digest of three numbers.
func DigestOf3(salt [2]uint64, a, b, c uint64) uint64 {
	var text [24]byte
	le.PutUint64(text[:], a)
	le.PutUint64(text[8:], b)
	le.PutUint64(text[16:], c)
	return Digest(salt, text[:])
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
