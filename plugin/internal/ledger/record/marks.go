package record

import "github.com/callonce/callonce/plugin/internal/ledger"

// Marks of cancelled calls lie in a fixed number of records, each with those of some calls.
//
//	marks  magic 'c' 'x', format, 0 | scope u64, call u64, at i64 | …
const (
	marksFormat = 1
	MarksHeader = 4  // bytes before the first mark
	MarkSize    = 24 // bytes
	MostMarks   = 32 // of one record
	offMarkCall = 8
	offMarkAt   = 16
)

// Marks is one record of them, in place; empty for one never written.
type Marks []byte

// Mark says when a call was cancelled.
type Mark struct {
	Scope, Call uint64 // digests
	At          ledger.Mono
}

// Valid reports whether the bytes are such a record, whole.
func (m Marks) Valid() bool {
	return is(m, MarksHeader, 'x', marksFormat) && (len(m)-MarksHeader)%MarkSize == 0 && len(m) <= MarksHeader+MostMarks*MarkSize
}

// Len is the number of marks.
func (m Marks) Len() int { return max(len(m)-MarksHeader, 0) / MarkSize }

// At gives one of them.
func (m Marks) At(i int) Mark {
	w := m[MarksHeader+i*MarkSize:]
	return Mark{le.Uint64(w), le.Uint64(w[offMarkCall:]), ledger.Mono(le.Uint64(w[offMarkAt:]))}
}

// Find gives the index of a call's mark, -1 for none.
func (m Marks) Find(scope, call uint64) int {
	for i := range m.Len() {
		if w := m.At(i); w.Call == call && w.Scope == scope {
			return i
		}
	}
	return -1
}

// Put writes a mark at an index, or behind the last one where i is Len.
func (m Marks) Put(i int, w Mark) Marks {
	if len(m) == 0 {
		m = append(m, 'c', 'x', marksFormat, 0)
	}
	if i == m.Len() {
		m = append(m, make([]byte, MarkSize)...)
	}
	at := m[MarksHeader+i*MarkSize:]
	le.PutUint64(at, w.Scope)
	le.PutUint64(at[offMarkCall:], w.Call)
	le.PutUint64(at[offMarkAt:], uint64(w.At))
	return m
}
