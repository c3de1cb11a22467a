package record

import "github.com/callonce/callonce/plugin/internal/ledger"

// Beside each page lies what the last sweep saw of when its rows' entries end. It is for advice only, and decides nothing.
//
//	dues  magic 'c' 'd', format, 0
//	due   row u64 | the soonest end of an entry i64 | of a tombstone i64; 0 = none ends
const (
	duesFormat = 1
	DuesHeader = 4  // bytes before the first due
	DueSize    = 24 // bytes
)

// Due is the soonest end of an entry, and of a tombstone, that a row counts; 0 for none.
type Due struct{ Entry, Tombstone ledger.Mono }

// Dues is one record of them, in place.
type Dues []byte

// Valid reports whether the bytes are such a record, whole.
func (d Dues) Valid() bool {
	return is(d, DuesHeader, 'd', duesFormat) && (len(d)-DuesHeader)%DueSize == 0
}

// Of gives what is said of a row, the zero value for one of which nothing is.
func (d Dues) Of(row uint64) Due {
	for rest := d[DuesHeader:]; len(rest) > 0; rest = rest[DueSize:] {
		if le.Uint64(rest) == row {
			return Due{ledger.Mono(le.Uint64(rest[8:])), ledger.Mono(le.Uint64(rest[16:]))}
		}
	}
	return Due{}
}

// AppendDues starts a record of dues.
func AppendDues(dst []byte) []byte { return append(dst, 'c', 'd', duesFormat, 0) }

// AppendDue appends what ends in a row.
func AppendDue(dst []byte, row uint64, d Due) []byte {
	dst = le.AppendUint64(dst, row)
	dst = le.AppendUint64(dst, uint64(d.Entry))
	return le.AppendUint64(dst, uint64(d.Tombstone))
}
