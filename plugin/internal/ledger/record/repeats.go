package record

import "github.com/callonce/callonce/plugin/internal/ledger"

// Repeats are counted in a fixed number of records, each with the counts of some keys.
//
//	repeats  magic 'c' 'n', format, 0 | key u64, until i64, count u64 | …
const (
	repeatsFormat  = 1
	RepeatsHeader  = 4  // bytes before the first count
	RepeatSize     = 24 // bytes
	MostRepeats    = 32 // counts of one record
	offRepeatUntil = 8
	offRepeatCount = 16
)

// Repeats is one record of them, in place; empty for one never written.
type Repeats []byte

// Repeat is how often a key was repeated.
type Repeat struct {
	Key   uint64 // digest
	Until ledger.Mono
	Count uint64
}

// Valid reports whether the bytes are such a record, whole.
func (m Repeats) Valid() bool {
	return is(m, RepeatsHeader, 'n', repeatsFormat) && (len(m)-RepeatsHeader)%RepeatSize == 0 && len(m) <= RepeatsHeader+MostRepeats*RepeatSize
}

// Len is the number of counts.
func (m Repeats) Len() int { return max(len(m)-RepeatsHeader, 0) / RepeatSize }

// At gives one of them.
func (m Repeats) At(i int) Repeat {
	w := m[RepeatsHeader+i*RepeatSize:]
	return Repeat{le.Uint64(w), ledger.Mono(le.Uint64(w[offRepeatUntil:])), le.Uint64(w[offRepeatCount:])}
}

// IndexFor is where the count of a key lies or is to be written: behind the last one where
// there is room, else in place of the one that ends first.
func (m Repeats) IndexFor(key uint64) int {
	first := 0
	for i := range m.Len() {
		w := m.At(i)
		if w.Key == key {
			return i
		}
		if w.Until < m.At(first).Until {
			first = i
		}
	}
	if m.Len() < MostRepeats {
		return m.Len()
	}
	return first
}

// Put writes a count at an index, or behind the last one where i is Len.
func (m Repeats) Put(i int, w Repeat) Repeats {
	if len(m) == 0 {
		m = append(m, 'c', 'n', repeatsFormat, 0)
	}
	if i == m.Len() {
		m = append(m, make([]byte, RepeatSize)...)
	}
	at := m[RepeatsHeader+i*RepeatSize:]
	le.PutUint64(at, w.Key)
	le.PutUint64(at[offRepeatUntil:], uint64(w.Until))
	le.PutUint64(at[offRepeatCount:], w.Count)
	return m
}
