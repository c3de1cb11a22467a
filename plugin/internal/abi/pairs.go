package abi

import (
	"encoding/binary"
	"unsafe"
)

// A list of pairs, as the ABI has headers: the number of pairs, the lengths of each
// name and value, then all of them with a zero byte behind each. Numbers are 32-bit
// little endian.

// readPairs appends the pairs to dst. The strings are not copied: they change when b
// does. ok is false when b is not such a list.
func readPairs(dst [][2]string, b []byte) (pairs [][2]string, ok bool) {
	if len(b) < 4 {
		return dst, len(b) == 0
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n > (len(b)-4)/8 {
		return dst, false
	}
	sizes, rest := b[4:4+8*n], b[4+8*n:]
	for ; len(sizes) > 0; sizes = sizes[8:] {
		name, value := uint64(binary.LittleEndian.Uint32(sizes)), uint64(binary.LittleEndian.Uint32(sizes[4:]))
		if name+value+2 > uint64(len(rest)) {
			return dst, false
		}
		dst = append(dst, [2]string{text(rest[:name]), text(rest[name+1 : name+1+value])})
		rest = rest[name+value+2:]
	}
	return dst, true
}

// readHeaders reads an answer that is a list of headers into lines. There is always a line, unless they are out of reach.
func readHeaders(lines [][2]string, b []byte, st status) ([][2]string, error) {
	if st != statusOK {
		return lines[:0], st
	}
	lines, ok := readPairs(lines[:0], b)
	switch {
	case !ok:
		return lines[:0], statusParseFailure
	case len(lines) == 0:
		return lines, statusNotFound
	}
	return lines, nil
}

func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// appendPairs appends the list.
func appendPairs(dst []byte, pairs [][2]string) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(pairs)))
	for _, p := range pairs {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p[0])))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p[1])))
	}
	for _, p := range pairs {
		dst = append(append(dst, p[0]...), 0)
		dst = append(append(dst, p[1]...), 0)
	}
	return dst
}

// appendPath appends the path of an attribute, as the ABI has it: its parts with a
// zero byte between them.
func appendPath(dst []byte, path []string) []byte {
	for i, part := range path {
		if i > 0 {
			dst = append(dst, 0)
		}
		dst = append(dst, part...)
	}
	return dst
}
