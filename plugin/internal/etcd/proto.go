package etcd

import "encoding/binary"

// Protobuf's wire format: of the packages that have it, those that pull in no reflection are longer than this.

const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

func appendVarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

func appendTag(b []byte, field, kind int) []byte {
	return appendVarint(b, uint64(field)<<3|uint64(kind))
}

// appendNumber leaves a 0 out, as proto3 does.
func appendNumber(b []byte, field int, v uint64) []byte {
	if v == 0 {
		return b
	}
	return appendVarint(appendTag(b, field, wireVarint), v)
}

func appendBytes(b []byte, field int, v []byte) []byte {
	return append(appendVarint(appendTag(b, field, wireBytes), uint64(len(v))), v...)
}

func appendString(b []byte, field int, v string) []byte {
	return append(appendVarint(appendTag(b, field, wireBytes), uint64(len(v))), v...)
}

// eachField gives f every field: of numbers the value, of bytes the bytes, which are never nil. It is false where the message is
// malformed, has a group, or f says so.
func eachField(b []byte, f func(field int, number uint64, bytes []byte) bool) bool {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 || tag>>3 >= 1<<29 {
			return false
		}
		b = b[n:]
		var v uint64
		var m []byte
		switch tag & 7 {
		case wireVarint:
			if v, n = binary.Uvarint(b); n <= 0 {
				return false
			}
			b = b[n:]
		case wireFixed64:
			if len(b) < 8 {
				return false
			}
			v, b = binary.LittleEndian.Uint64(b), b[8:]
		case wireFixed32:
			if len(b) < 4 {
				return false
			}
			v, b = uint64(binary.LittleEndian.Uint32(b)), b[4:]
		case wireBytes:
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return false
			}
			m, b = b[n:n+int(size):n+int(size)], b[n+int(size):]
		default:
			return false
		}
		if !f(int(tag>>3), v, m) {
			return false
		}
	}
	return true
}
