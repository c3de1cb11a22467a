package digest

import (
	"encoding/binary"
	"math/bits"
)

const blockSize = 64

// constants are those of FIPS 180-4, section 4.2.2.
var constants = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

// sum is section 6.2.
func sum(p []byte) (out [Size]byte) {
	h := [8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}
	whole := len(p) &^ (blockSize - 1)
	blocks(&h, p[:whole])
	// The rest, a bit, zeros, and the length in bits: one block or two.
	var last [2 * blockSize]byte
	n := copy(last[:], p[whole:])
	last[n] = 0x80
	end := blockSize
	if n+1+8 > blockSize {
		end = 2 * blockSize
	}
	binary.BigEndian.PutUint64(last[end-8:], uint64(len(p))*8)
	blocks(&h, last[:end])
	for i, v := range h {
		binary.BigEndian.PutUint32(out[4*i:], v)
	}
	return out
}

// blocks goes over p, whole blocks.
func blocks(s *[8]uint32, p []byte) {
	var w [64]uint32
	for ; len(p) >= blockSize; p = p[blockSize:] {
		for i := 0; i < 16; i += 4 {
			x := p[4*i : 4*i+16]
			w[i] = binary.BigEndian.Uint32(x)
			w[i+1] = binary.BigEndian.Uint32(x[4:])
			w[i+2] = binary.BigEndian.Uint32(x[8:])
			w[i+3] = binary.BigEndian.Uint32(x[12:])
		}
		for i := 0; i < 48; i += 4 {
			x := (*[20]uint32)(w[i:])
			x[16] = schedule(x[14], x[9], x[1], x[0])
			x[17] = schedule(x[15], x[10], x[2], x[1])
			x[18] = schedule(x[16], x[11], x[3], x[2])
			x[19] = schedule(x[17], x[12], x[4], x[3])
		}
		a, b, c, d, e, f, g, h := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
		for i := 0; i < 64; i += 8 {
			x, k := (*[8]uint32)(w[i:]), (*[8]uint32)(constants[i:])
			d, h = round(a, b, c, d, e, f, g, h+k[0]+x[0])
			c, g = round(h, a, b, c, d, e, f, g+k[1]+x[1])
			b, f = round(g, h, a, b, c, d, e, f+k[2]+x[2])
			a, e = round(f, g, h, a, b, c, d, e+k[3]+x[3])
			h, d = round(e, f, g, h, a, b, c, d+k[4]+x[4])
			g, c = round(d, e, f, g, h, a, b, c+k[5]+x[5])
			f, b = round(c, d, e, f, g, h, a, b+k[6]+x[6])
			e, a = round(b, c, d, e, f, g, h, a+k[7]+x[7])
		}
		s[0] += a
		s[1] += b
		s[2] += c
		s[3] += d
		s[4] += e
		s[5] += f
		s[6] += g
		s[7] += h
	}
}

// round gives what becomes of d and h; h comes with its constant and word of the schedule.
func round(a, b, c, d, e, f, g, h uint32) (uint32, uint32) {
	h += (bits.RotateLeft32(e, -6) ^ bits.RotateLeft32(e, -11) ^ bits.RotateLeft32(e, -25)) + (e&f ^ ^e&g)
	return d + h, h + (bits.RotateLeft32(a, -2) ^ bits.RotateLeft32(a, -13) ^ bits.RotateLeft32(a, -22)) + (a&b ^ a&c ^ b&c)
}

// schedule gives a word from those 2, 7, 15 and 16 before it.
func schedule(w2, w7, w15, w16 uint32) uint32 {
	return (bits.RotateLeft32(w2, -17) ^ bits.RotateLeft32(w2, -19) ^ w2>>10) + w7 +
		(bits.RotateLeft32(w15, -7) ^ bits.RotateLeft32(w15, -18) ^ w15>>3) + w16
}
