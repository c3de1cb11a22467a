// Package scratch bounds the buffers that a worker uses again from request to request. A
// caller chooses how large its request is, and a VM never gives memory back to its host:
// what one large request made grow would be kept for good. It must not know what the
// buffers hold.
package scratch

import "unsafe"

// Most is how much memory such a buffer keeps for its next use, in bytes.
const Most = 64 << 10

// Keep gives b, empty, to be used again; nil where it has grown beyond Most bytes.
func Keep[T any](b []T) []T {
	var one T
	if uintptr(cap(b))*unsafe.Sizeof(one) > Most {
		return nil
	}
	return b[:0]
}
