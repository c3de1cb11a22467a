package abi

import (
	"encoding/binary"

	"github.com/callonce/callonce/hostsim/internal/header"
)

// Limits of the list of pairs that a module may pass, as proxy-wasm-cpp-host has them. A list beyond them counts as empty.
const (
	maxPairBytes = 1 << 20
	maxPairs     = 1024
)

// ParsePairs reads a list of pairs in the ABI's form; a malformed one counts as empty.
func ParsePairs(b []byte) []header.Line {
	if len(b) < 4 || len(b) > maxPairBytes {
		return nil
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n > maxPairs || 4+8*n > len(b) {
		return nil
	}
	out := make([]header.Line, 0, n)
	pos := 4 + 8*n
	next := func(size uint32) (string, bool) {
		end := uint64(pos) + uint64(size)
		if end >= uint64(len(b)) || b[end] != 0 {
			return "", false
		}
		s := string(b[pos:end])
		pos = int(end) + 1
		return s, true
	}
	for i := range n {
		name, ok := next(binary.LittleEndian.Uint32(b[4+8*i:]))
		if !ok {
			return nil
		}
		value, ok := next(binary.LittleEndian.Uint32(b[8+8*i:]))
		if !ok {
			return nil
		}
		out = append(out, header.Line{Name: name, Value: value})
	}
	if pos != len(b) {
		return nil
	}
	return out
}

// FormatPairs writes a list of pairs in the ABI's form.
func FormatPairs(lines []header.Line) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(lines)))
	for _, h := range lines {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(h.Name)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(h.Value)))
	}
	for _, h := range lines {
		b = append(append(b, h.Name...), 0)
		b = append(append(b, h.Value...), 0)
	}
	return b
}
