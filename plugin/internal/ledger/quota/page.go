package quota

import "github.com/callonce/callonce/plugin/internal/ledger/state"

// A page counts. Rows of nothing are left out.
//
//	page  magic 'c' 'p', format, 0 | open u32 | installed u32
//	row   key u64 | entries, in flight, tombstones i32 | the same, shadow
//
// open is the epoch of the newest recount that has begun, installed that of the newest
// one whose result the rows hold. Between the two the shadow gathers what changes in
// buckets that the recount has counted already. Counts are signed: a shadow may well
// be below zero.
const (
	pageFormat = 1
	PageHeader = 12 // bytes before the first row
	RowSize    = 32 // bytes
	offMain    = 8
	offShadow  = 20
)

// Page is the record, in place. Nil is a page never written.
type Page []byte

// Valid reports whether the bytes are a page, whole.
func (p Page) Valid() bool {
	return len(p) >= PageHeader && (len(p)-PageHeader)%RowSize == 0 && p[0] == 'c' && p[1] == 'p' && p[2] == pageFormat
}

func (p Page) opened() uint32 {
	if len(p) == 0 {
		return 0
	}
	return le.Uint32(p[4:])
}

// Installed is the epoch of the newest recount whose result the rows hold.
func (p Page) Installed() uint32 {
	if len(p) == 0 {
		return 0
	}
	return le.Uint32(p[8:])
}

// Each calls f with what every row says.
func (p Page) Each(f func(row uint64, main state.Counts)) {
	for rest := p.rows(); len(rest) > 0; rest = rest[RowSize:] {
		r := readRow(rest)
		f(r.key, r.main)
	}
}

// Says is what a row says, nothing where there is no such row.
func (p Page) Says(key uint64) state.Counts {
	for rest := p.rows(); len(rest) > 0; rest = rest[RowSize:] {
		if le.Uint64(rest) == key {
			return countsAt(rest[offMain:])
		}
	}
	return state.Counts{}
}

func (p Page) has(key uint64) bool {
	for rest := p.rows(); len(rest) > 0; rest = rest[RowSize:] {
		if le.Uint64(rest) == key {
			return true
		}
	}
	return false
}

// rows gives the part of a page that holds rows.
func (p Page) rows() []byte {
	if len(p) == 0 {
		return nil
	}
	return p[PageHeader:]
}

// pageRow is one row, read.
type pageRow struct {
	key          uint64
	main, shadow state.Counts
}

func readRow(b []byte) pageRow {
	return pageRow{le.Uint64(b), countsAt(b[offMain:]), countsAt(b[offShadow:])}
}

func countsAt(b []byte) state.Counts {
	return state.Counts{Entries: int32(le.Uint32(b)), InFlight: int32(le.Uint32(b[4:])), Tombs: int32(le.Uint32(b[8:]))}
}

func putCounts(b []byte, c state.Counts) {
	le.PutUint32(b, uint32(c.Entries))
	le.PutUint32(b[4:], uint32(c.InFlight))
	le.PutUint32(b[8:], uint32(c.Tombs))
}

func appendPage(dst []byte, open, installed uint32) []byte {
	dst = append(dst, 'c', 'p', pageFormat, 0)
	dst = le.AppendUint32(dst, open)
	return le.AppendUint32(dst, installed)
}

func appendRow(dst []byte, r pageRow) []byte {
	if r.main == (state.Counts{}) && r.shadow == (state.Counts{}) {
		return dst
	}
	at := len(dst)
	dst = append(dst, make([]byte, RowSize)...)
	le.PutUint64(dst[at:], r.key)
	putCounts(dst[at+offMain:], r.main)
	putCounts(dst[at+offShadow:], r.shadow)
	return dst
}
