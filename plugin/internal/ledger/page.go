package ledger

// A page counts. Each of its rows is one policy, principal or scope; what the row says
// is never less than what the buckets hold, so that a claim that finds room in the row
// has it. Rows of nothing are left out.
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
	pageHeader = 12
	pageRow    = 32
)

type page []byte

func (p page) valid() bool {
	return len(p) == 0 || len(p) >= pageHeader && (len(p)-pageHeader)%pageRow == 0 &&
		p[0] == 'c' && p[1] == 'p' && p[2] == pageFormat
}

func (p page) open() uint32 {
	if len(p) == 0 {
		return 0
	}
	return le.Uint32(p[4:])
}

func (p page) installed() uint32 {
	if len(p) == 0 {
		return 0
	}
	return le.Uint32(p[8:])
}

func appendPageHeader(dst []byte, open, installed uint32) []byte {
	dst = append(dst, 'c', 'p', pageFormat, 0)
	dst = le.AppendUint32(dst, open)
	return le.AppendUint32(dst, installed)
}

// rows gives the part of a page that holds rows.
func (p page) rows() []byte {
	if len(p) == 0 {
		return nil
	}
	return p[pageHeader:]
}

// find gives a row's place in rows, -1 for none.
func findRow(rows []byte, key uint64) int {
	for at := 0; at < len(rows); at += pageRow {
		if le.Uint64(rows[at:]) == key {
			return at
		}
	}
	return -1
}

const (
	offMain   = 8
	offShadow = 20
)

func countsAt(b []byte) counts {
	return counts{int32(le.Uint32(b)), int32(le.Uint32(b[4:])), int32(le.Uint32(b[8:]))}
}

func putCounts(b []byte, c counts) {
	le.PutUint32(b, uint32(c.entries))
	le.PutUint32(b[4:], uint32(c.inFlight))
	le.PutUint32(b[8:], uint32(c.tombs))
}

func appendRow(dst []byte, key uint64, main, shadow counts) []byte {
	if main == (counts{}) && shadow == (counts{}) {
		return dst
	}
	at := len(dst)
	dst = append(dst, make([]byte, pageRow)...)
	le.PutUint64(dst[at:], key)
	putCounts(dst[at+offMain:], main)
	putCounts(dst[at+offShadow:], shadow)
	return dst
}

// change is what happens to one row.
type change struct {
	row   uint64
	delta counts
}

// post writes the page with changes that come from a bucket read at an epoch. A bucket
// older than the installed recount has been counted since, with or without the change:
// then there is nothing to say, and stale is true.
func (p page) post(dst []byte, changes []change, epoch uint32) (out []byte, stale bool) {
	if epoch < p.installed() {
		return dst, true
	}
	// In a bucket that a recount under way has already counted: its result must know.
	late := epoch == p.open() && p.open() != p.installed()
	dst = appendPageHeader(dst, p.open(), p.installed())
	rows := p.rows()
	for at := 0; at < len(rows); at += pageRow {
		key, main, shadow := le.Uint64(rows[at:]), countsAt(rows[at+offMain:]), countsAt(rows[at+offShadow:])
		for i := range changes {
			if changes[i].row == key {
				main = main.plus(changes[i].delta)
				if late {
					shadow = shadow.plus(changes[i].delta)
				}
			}
		}
		dst = appendRow(dst, key, main, shadow)
	}
	for i := range changes {
		if findRow(rows, changes[i].row) >= 0 || firstOf(changes, i) != i {
			continue
		}
		var main, shadow counts
		for _, c := range changes[i:] {
			if c.row == changes[i].row {
				main = main.plus(c.delta)
			}
		}
		if late {
			shadow = main
		}
		dst = appendRow(dst, changes[i].row, main, shadow)
	}
	return dst, false
}

// firstOf is the first change of the same row.
func firstOf(changes []change, i int) int {
	for j := range changes {
		if changes[j].row == changes[i].row {
			return j
		}
	}
	return i
}
