package etcdsim

import (
	"bytes"
	"encoding/binary"
)

// Protobuf, read and written apart from the code that is tested with it.

func number(b []byte, field int, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(field)<<3), v)
}

func data(b []byte, field int, v []byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(b, uint64(field)<<3|2), uint64(len(v))), v...)
}

// fields gives f each field; it panics on what no client of ours sends.
func fields(b []byte, f func(field int, v uint64, m []byte)) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			panic("malformed request")
		}
		b = b[n:]
		v, n := binary.Uvarint(b)
		if n <= 0 {
			panic("malformed request")
		}
		b = b[n:]
		switch tag & 7 {
		case 0:
			f(int(tag>>3), v, nil)
		case 2:
			f(int(tag>>3), 0, b[:v:v])
			b = b[v:]
		default:
			panic("malformed request")
		}
	}
}

// Kinds of an Op, as RequestOp has them.
const (
	Range  = 1
	Put    = 2
	Delete = 3
)

// Op is one operation of a transaction.
type Op struct {
	Kind  int
	Key   string
	Value []byte
	Lease int64
}

// Targets of a Compare.
const (
	Version = 0
	Create  = 1
	Mod     = 2
	Value   = 3
)

// Compare is one comparison of a transaction: whether it is Greater, else equal.
type Compare struct {
	Key     string
	Target  int
	Greater bool
	Number  int64
	Value   []byte
}

// Txn is a transaction in hand: tests look at it, and plant bugs into it.
type Txn struct {
	Compares        []Compare
	Then, Otherwise []Op
}

func readOp(m []byte) (o Op) {
	fields(m, func(kind int, _ uint64, m []byte) {
		o.Kind = kind
		fields(m, func(n int, v uint64, m []byte) {
			switch n {
			case 1:
				o.Key = string(m)
			case 2:
				o.Value = bytes.Clone(m)
			case 3:
				o.Lease = int64(v)
			}
		})
	})
	return o
}

// ReadTxn reads a TxnRequest.
func ReadTxn(b []byte) (t Txn) {
	fields(b, func(n int, _ uint64, m []byte) {
		switch n {
		case 1:
			var k Compare
			fields(m, func(n int, v uint64, m []byte) {
				switch n {
				case 1:
					k.Greater = v == 1
				case 2:
					k.Target = int(v)
				case 3:
					k.Key = string(m)
				case 4, 5, 6:
					k.Number = int64(v)
				case 7:
					k.Value = bytes.Clone(m)
				}
			})
			t.Compares = append(t.Compares, k)
		case 2:
			t.Then = append(t.Then, readOp(m))
		case 3:
			t.Otherwise = append(t.Otherwise, readOp(m))
		}
	})
	return t
}

// Encode writes the TxnRequest.
func (t *Txn) Encode() (b []byte) {
	for _, k := range t.Compares {
		var m []byte
		if k.Greater {
			m = number(m, 1, 1)
		}
		m = data(number(m, 2, uint64(k.Target)), 3, []byte(k.Key))
		if k.Target == Value {
			m = data(m, 7, k.Value)
		} else {
			m = binary.AppendUvarint(binary.AppendUvarint(m, uint64(4+k.Target)<<3), uint64(k.Number))
		}
		b = data(b, 1, m)
	}
	op := func(o Op) []byte {
		m := data(nil, 1, []byte(o.Key))
		if len(o.Value) > 0 {
			m = data(m, 2, o.Value)
		}
		return data(nil, o.Kind, number(m, 3, uint64(o.Lease)))
	}
	for _, o := range t.Then {
		b = data(b, 2, op(o))
	}
	for _, o := range t.Otherwise {
		b = data(b, 3, op(o))
	}
	return b
}
