package guard

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/callonce/callonce/canonical"
)

// The proxy hands over an attribute's bytes without its type: the string "abcdef2C" and
// the number 5179135242756705 are the same eight. Types are told only by the whole of
// the metadata, which comes as protobuf (envoy.config.core.v3.Metadata: a map of names
// to google.protobuf.Struct; measured on Envoy 1.36.4 and 1.40.0). What is read of it is
// bounded by its length times that of the path, and nothing is allocated.

// kind is the type of a value in metadata.
type kind uint8

const (
	kindNone kind = iota
	kindNull
	kindNumber
	kindText
	kindBool
	kindObject
	kindList
)

// typed is a value with its type: bits of a number (a double) or a boolean, bytes of
// a text, an object or a list.
type typed struct {
	kind  kind
	bits  uint64
	bytes []byte
}

// Fields of protobuf's Value, and of what contains it.
const (
	fieldEntry = 1 // of a map, or an element of a list
	fieldKey   = 1
	fieldValue = 2

	fieldNull, fieldNumber, fieldText, fieldBool, fieldStruct, fieldList = 1, 2, 3, 4, 5, 6
)

// lookUp finds the value at a path: a filter's name, then names of members and indexes
// of lists. What is not there, and what is no protobuf, is kindNone.
func lookUp(metadata []byte, path []string) typed {
	if len(path) < 2 {
		return typed{}
	}
	inside, ok := mapEntry(metadata, path[0])
	if !ok {
		return typed{}
	}
	v := typed{kind: kindObject, bytes: inside}
	for _, name := range path[1:] {
		switch v.kind {
		case kindObject:
			inside, ok = mapEntry(v.bytes, name)
		case kindList:
			inside, ok = listElement(v.bytes, name)
		default:
			return typed{}
		}
		if !ok {
			return typed{}
		}
		v = readTyped(inside)
	}
	return v
}

// mapEntry gives the value of a name in a map, of several the last.
func mapEntry(b []byte, name string) (value []byte, found bool) {
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return nil, false
		}
		if f.number != fieldEntry || f.wire != wireBytes {
			continue
		}
		var key, v []byte
		for in := f.bytes; len(in) > 0; {
			f, ok := nextField(&in)
			if !ok {
				return nil, false
			}
			switch {
			case f.wire != wireBytes:
			case f.number == fieldKey:
				key = f.bytes
			case f.number == fieldValue:
				v = f.bytes
			}
		}
		if string(key) == name {
			value, found = v, true
		}
	}
	return value, found
}

// listElement gives an element of a list by its index in decimal.
func listElement(b []byte, index string) (value []byte, found bool) {
	want, err := strconv.Atoi(index)
	if err != nil || want < 0 {
		return nil, false
	}
	for at := 0; len(b) > 0; {
		f, ok := nextField(&b)
		if !ok {
			return nil, false
		}
		if f.number != fieldEntry || f.wire != wireBytes {
			continue
		}
		if at == want {
			return f.bytes, true
		}
		at++
	}
	return nil, false
}

// readTyped reads a google.protobuf.Value. Of several members the last counts.
func readTyped(b []byte) (v typed) {
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return typed{}
		}
		switch {
		case f.number == fieldNull && f.wire == wireVarint:
			v = typed{kind: kindNull}
		case f.number == fieldNumber && f.wire == wireFixed64:
			v = typed{kind: kindNumber, bits: f.bits}
		case f.number == fieldText && f.wire == wireBytes:
			v = typed{kind: kindText, bytes: f.bytes}
		case f.number == fieldBool && f.wire == wireVarint:
			v = typed{kind: kindBool, bits: f.bits}
		case f.number == fieldStruct && f.wire == wireBytes:
			v = typed{kind: kindObject, bytes: f.bytes}
		case f.number == fieldList && f.wire == wireBytes:
			v = typed{kind: kindList, bytes: f.bytes}
		}
	}
	return v
}

// field is one field of a message on the wire.
type field struct {
	number uint64
	wire   uint8
	bits   uint64 // of a number
	bytes  []byte
}

const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// nextField takes one field off a message. Groups, which nothing here has, are no protobuf.
func nextField(b *[]byte) (f field, ok bool) {
	tag, n := binary.Uvarint(*b)
	if n <= 0 {
		return f, false
	}
	rest := (*b)[n:]
	f.number, f.wire = tag>>3, uint8(tag&7)
	switch f.wire {
	case wireVarint:
		f.bits, n = binary.Uvarint(rest)
	case wireFixed64:
		if n = 8; len(rest) >= n {
			f.bits = binary.LittleEndian.Uint64(rest)
		}
	case wireFixed32:
		n = 4
	case wireBytes:
		size, m := binary.Uvarint(rest)
		if m <= 0 || size > uint64(len(rest)-m) {
			return f, false
		}
		n = m + int(size)
		f.bytes = rest[m:n]
	default:
		return f, false
	}
	if n <= 0 || n > len(rest) {
		return f, false
	}
	*b = rest[n:]
	return f, true
}

// largestExact is the first number that a double cannot tell from its neighbour.
const largestExact = 1 << 53

// spell gives a number as canonical JSON has it. ok is false for what stands for more than
// one: the proxy rounds to a double, so that 9007199254740993 arrives as ...992, and a
// tenant of the one would get the other's answers.
func spell(bits uint64) (text string, ok bool) {
	d := math.Float64frombits(bits)
	if !(math.Abs(d) < largestExact) { // NaN too
		return "", false
	}
	if i := int64(d); float64(i) == d {
		return strconv.FormatInt(i, 10), true
	}
	return string(canonical.AppendNumber(nil, strconv.AppendFloat(nil, d, 'e', -1, 64))), true
}
