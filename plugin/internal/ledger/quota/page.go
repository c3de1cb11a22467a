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

// How a page takes a change that comes from a bucket read at an epoch. The recount counts buckets while claims go on; the epoch says
// whether its count has seen this bucket before or after the change.
type taking uint8

const (
	// plain: no recount has counted the bucket yet, or none is under way.
	plain taking = iota
	// shadowed: the recount under way has counted the bucket without the change, so its result must know of it.
	shadowed
	// stale: the bucket has been counted since, with or without the change: there is nothing to say.
	stale
)

func (p Page) takes(epoch uint32) taking {
	switch {
	case epoch < p.Installed():
		return stale
	case epoch == p.opened() && p.opened() != p.Installed():
		return shadowed
	}
	return plain
}

// add adds what a change does to a row, and to its shadow where the recount must know.
func (r *pageRow) add(c *Change, how taking) {
	r.main = r.main.Plus(c.Delta)
	if how == shadowed {
		r.shadow = r.shadow.Plus(c.Delta)
	}
}

// appendChanged appends the page as it is with changes. ok is false where they are stale.
func (p Page) appendChanged(dst []byte, changes []Change, epoch uint32) (out []byte, ok bool) {
	how := p.takes(epoch)
	if how == stale {
		return dst, false
	}
	dst = appendPage(dst, p.opened(), p.Installed())
	for rest := p.rows(); len(rest) > 0; rest = rest[RowSize:] {
		r := readRow(rest)
		for i := range changes {
			if changes[i].Row == r.key {
				r.add(&changes[i], how)
			}
		}
		dst = appendRow(dst, r)
	}
	for i := range changes {
		if p.has(changes[i].Row) || firstOf(changes, i) != i {
			continue
		}
		r := pageRow{key: changes[i].Row}
		for j := range changes[i:] {
			if c := &changes[i+j]; c.Row == r.key {
				r.add(c, how)
			}
		}
		dst = appendRow(dst, r)
	}
	return dst, true
}

// firstOf is the index of the first change of the same row.
func firstOf(changes []Change, i int) int {
	for j := range changes {
		if changes[j].Row == changes[i].Row {
			return j
		}
	}
	return i
}
