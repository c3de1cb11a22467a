package quota

import (
	"slices"
	"strconv"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// A recount has an epoch, never used twice. It opens every page (from then on their
// shadows gather), writes the epoch into every bucket while it counts it, and then
// installs count and shadow in every page.

// Tally is what a recount has counted. The zero value is an empty one.
type Tally struct {
	at    map[uint64]int32
	rows  []tallyRow
	heads []int32 // by page: the first of its rows, plus one
}

type tallyRow struct {
	key    uint64
	counts state.Counts
	due    record.Due
	next   int32 // of the same page, plus one
	seen   bool
}

// Count adds an entry of a state to its rows.
func (p *Pages) Count(t *Tally, rows *Rows, st ledger.State, expires ledger.Mono) {
	if t.at == nil {
		t.at, t.heads = map[uint64]int32{}, make([]int32, len(p.keys))
	}
	for _, key := range rows {
		i, ok := t.at[key]
		if !ok {
			page := p.PageOf(key)
			i = int32(len(t.rows))
			t.rows = append(t.rows, tallyRow{key: key, next: t.heads[page]})
			t.at[key], t.heads[page] = i, i+1
		}
		r := &t.rows[i]
		r.counts = r.counts.Plus(state.Uses(st))
		r.due = Sooner(r.due, DueOf(st, expires))
	}
}

// take gives what was counted for a row, and marks it seen.
func (t *Tally) take(key uint64) state.Counts {
	i, ok := t.at[key]
	if !ok {
		return state.Counts{}
	}
	t.rows[i].seen = true
	return t.rows[i].counts
}

func (t *Tally) each(page int, f func(*tallyRow)) {
	if t.heads == nil {
		return
	}
	for i := t.heads[page]; i > 0; i = t.rows[i-1].next {
		f(&t.rows[i-1])
	}
}

// appendOpened appends the page as it is when a recount begins. ok is false where a newer one has.
func (p Page) appendOpened(dst []byte, epoch uint32) (out []byte, ok bool) {
	if p.opened() >= epoch {
		return dst, false
	}
	dst = appendPage(dst, epoch, p.Installed())
	for rest := p.rows(); len(rest) > 0; rest = rest[RowSize:] {
		r := readRow(rest)
		r.shadow = state.Counts{}
		dst = appendRow(dst, r)
	}
	return dst, true
}

// appendInstalled appends page n as a recount leaves it: what was counted, and what came after it. ok is false where a newer one has
// begun, or this one was installed.
func (p Page) appendInstalled(dst []byte, n int, epoch uint32, t *Tally) (out []byte, ok bool) {
	if p.opened() != epoch || p.Installed() >= epoch {
		return dst, false
	}
	t.each(n, func(r *tallyRow) { r.seen = false })
	dst = appendPage(dst, epoch, epoch)
	for rest := p.rows(); len(rest) > 0; rest = rest[RowSize:] {
		r := readRow(rest)
		dst = appendRow(dst, pageRow{key: r.key, main: t.take(r.key).Plus(r.shadow)})
	}
	t.each(n, func(r *tallyRow) {
		if !r.seen {
			dst = appendRow(dst, pageRow{key: r.key, main: r.counts})
		}
	})
	return dst, true
}

// Begin opens page n for the recount of an epoch. ok is false where that cannot go on.
func (p *Pages) Begin(n int, epoch uint32) (ok bool) {
	return p.rewrite(n, func(pg Page) ([]byte, bool) { return pg.appendOpened(p.buf[:0], epoch) })
}

// Install ends it in page n. ok is false where it cannot go on.
func (p *Pages) Install(n int, epoch uint32, t *Tally) (ok bool) {
	if !p.rewrite(n, func(pg Page) ([]byte, bool) { return pg.appendInstalled(p.buf[:0], n, epoch, t) }) {
		return false
	}
	p.writeDues(n, t)
	return true
}

// rewrite swaps a page for what f makes of it. A foreign page is passed over: claims
// that need it are refused anyway.
func (p *Pages) rewrite(n int, f func(Page) ([]byte, bool)) bool {
	for range record.MaxTries {
		pg, cas, st := p.read(n)
		switch st {
		case record.Failed:
			return false
		case record.Foreign:
			return true
		}
		buf, ok := f(pg)
		if !ok {
			return false
		}
		p.buf = buf
		done, err := p.table.Set(p.Key(n), buf, cas)
		if err != nil {
			return false
		}
		if done {
			return true
		}
	}
	return false
}

// DueOf is when an entry of a state ends. A call in flight does not end by time.
func DueOf(st ledger.State, expires ledger.Mono) (d record.Due) {
	if !state.Timed(st) {
		return d
	}
	d.Entry = max(expires, 1)
	if state.Uses(st).Tombs > 0 {
		d.Tombstone = d.Entry
	}
	return d
}

// Sooner is the sooner of each end.
func Sooner(a, b record.Due) record.Due {
	return record.Due{Entry: sooner(a.Entry, b.Entry), Tombstone: sooner(a.Tombstone, b.Tombstone)}
}

func sooner(a, b ledger.Mono) ledger.Mono {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// DueKey is the key of what is written down beside a page.
func (p *Pages) DueKey(n int) string { return p.prefix + "d/" + strconv.Itoa(n) }

func validDues(b []byte) bool { return record.Dues(b).Valid() }

// Due gives what the last recount saw of a row.
func (p *Pages) Due(row uint64) (d record.Due) {
	v, _, st := p.table.Read(p.DueKey(p.PageOf(row)), validDues)
	if st != record.Present {
		return d
	}
	return record.Dues(v).Of(row)
}

// writeDues writes down what a recount saw of the rows of a page. A failure costs advice.
func (p *Pages) writeDues(n int, t *Tally) {
	key := p.DueKey(n)
	v, cas, st := p.table.Read(key, validDues)
	if !st.OK() {
		return
	}
	buf := record.AppendDues(p.buf[:0])
	t.each(n, func(r *tallyRow) {
		if r.due != (record.Due{}) {
			buf = record.AppendDue(buf, r.key, r.due)
		}
	})
	p.buf = buf
	if st == record.Present && !slices.Equal(v, buf) || st == record.Absent && len(buf) > record.DuesHeader {
		_, _ = p.table.Set(key, buf, cas)
	}
}
