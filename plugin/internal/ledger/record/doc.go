// Package record reads and writes the records that the ledger keeps in shared data. It decides nothing: it says whether bytes are a
// record of ours, whole and of this build's format, and what they say. Numbers are little endian; each record begins with two letters
// of its own and a format. docs/ledger.md lists the keys.
package record

import "encoding/binary"

var le = binary.LittleEndian

// is reports whether b is at least size bytes long and begins with a record's letter and format.
func is(b []byte, size int, letter, format byte) bool {
	return len(b) >= size && b[0] == 'c' && b[1] == letter && b[2] == format
}
