package quota

import (
	"strconv"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// Pages are the rows in shared data as one worker sees them, and its cache. Not for concurrent use.
type Pages struct {
	table     *record.Table
	prefix    string
	salt      uint64
	keys      []string // made as they are needed
	buf       []byte   // scratch of one call
	cache     cache
	perCached int32
}

// New gives so many pages; their keys begin with prefix, and salt places rows in them.
func New(t *record.Table, prefix string, pages int, salt uint64) *Pages {
	return &Pages{table: t, prefix: prefix, salt: salt, keys: make([]string, pages), perCached: capPerCached}
}

// CacheOneOf sets of how many of a cap one may be cached. Tests that want small caps cached lower it.
func (p *Pages) CacheOneOf(n int) { p.perCached = int32(n) }

// PageOf is the number of the page that a row lies in.
func (p *Pages) PageOf(row uint64) int { return int(record.Mix(row^p.salt) % uint64(len(p.keys))) }

// Key is the key of a page.
func (p *Pages) Key(n int) string {
	if p.keys[n] == "" {
		p.keys[n] = p.prefix + "p/" + strconv.Itoa(n)
	}
	return p.keys[n]
}

func validPage(b []byte) bool { return Page(b).Valid() }

func (p *Pages) read(n int) (Page, uint32, record.Status) {
	v, cas, st := p.table.Read(p.Key(n), validPage)
	return v, cas, st
}

// Reserve makes room in all three rows of an entry of a bucket of an epoch, innermost first, before the bucket
// says so: a crash between the two leaves a count too high, never too low. It reserves all or nothing.
func (p *Pages) Reserve(rows *Rows, d state.Counts, l *ledger.Limits, epoch uint32) (r Reservation) {
	for level, row := range rows {
		have, ok := p.cache.take(row, epoch, d)
		if !ok && !p.reserve(&r, level, Change{row, d}, have, l, epoch) {
			p.give(rows[:level], d, epoch)
			return r
		}
	}
	r.Got = true
	return r
}

func (p *Pages) reserve(r *Reservation, level int, c Change, have state.Counts, l *ledger.Limits, epoch uint32) bool {
	r.Level = level
	n := p.PageOf(c.Row)
	for range record.MaxTries {
		pg, cas, st := p.read(n)
		if !st.OK() {
			break
		}
		ahead, ok := r.fits(pg.Says(c.Row), c.Delta, l, p.perCached, have)
		if !ok {
			return false
		}
		if p.cache.none {
			ahead = state.Counts{}
		}
		buf, ok := pg.appendChanged(p.buf[:0], []Change{{c.Row, c.Delta.Plus(ahead)}}, epoch)
		p.buf = buf
		if !ok {
			r.Stale = true
			return false
		}
		done, err := p.table.Set(p.Key(n), buf, cas)
		if err != nil {
			break
		}
		if done {
			if ahead != (state.Counts{}) && !p.cache.put(c.Row, epoch, ahead) {
				p.Post([]Change{{c.Row, minus(ahead)}}, epoch)
			}
			return true
		}
	}
	r.Failed = true
	return false
}

// Return says in the rows what a bucket of an epoch has said already: that an entry uses less; or gives back what was reserved in
// vain. What limits allow is cached for the next claim; without limits nothing is.
func (p *Pages) Return(rows *Rows, d state.Counts, l *ledger.Limits, epoch uint32) {
	if d == (state.Counts{}) {
		return
	}
	if l == nil {
		p.give(rows[:], d, epoch)
		return
	}
	var changes [Levels]Change
	n := 0
	for level, row := range rows {
		if rest := p.cache.keep(row, epoch, d, cacheable(l, level, p.perCached)); rest != (state.Counts{}) {
			changes[n] = Change{row, minus(rest)}
			n++
		}
	}
	p.Post(changes[:n], epoch)
}

func (p *Pages) give(rows []uint64, d state.Counts, epoch uint32) {
	var changes [Levels]Change
	for i, row := range rows {
		changes[i] = Change{row, minus(d)}
	}
	p.Post(changes[:len(rows)], epoch)
}

// ReturnCached returns all that is cached; none says that nothing may be cached until
// it is called again. It reports whether anything was.
func (p *Pages) ReturnCached(none bool) (any bool) {
	list := p.cache.list
	p.cache = cache{none: none}
	for len(list) > 0 {
		epoch := list[0].key.epoch
		var changes []Change
		rest := list[:0:0]
		for _, h := range list {
			switch {
			case h.key.epoch != epoch:
				rest = append(rest, h)
			case h.counts != (state.Counts{}):
				changes = append(changes, Change{h.key.row, minus(h.counts)})
			}
		}
		any = any || len(changes) > 0
		p.Post(changes, epoch)
		list = rest
	}
	return any
}

// EachCached calls f with what is cached of each row for buckets of an epoch.
func (p *Pages) EachCached(f func(row uint64, epoch uint32, d state.Counts)) {
	for _, c := range p.cache.list {
		f(c.key.row, c.key.epoch, c.counts)
	}
}

// Runs reports whether a row counts calls in flight: it never says less than there are.
func (p *Pages) Runs(row uint64) bool {
	pg, _, st := p.read(p.PageOf(row))
	return !st.OK() || pg.Says(row).InFlight > 0
}

// Post applies changes of rows that come from buckets of an epoch, page by page, and puts them in that order. What cannot be written leaves a count too high,
// which the next recount puts right.
func (p *Pages) Post(changes []Change, epoch uint32) {
	// Insertion sort by page: the changes are few.
	for i := range changes {
		for j := i; j > 0 && p.PageOf(changes[j].Row) < p.PageOf(changes[j-1].Row); j-- {
			changes[j], changes[j-1] = changes[j-1], changes[j]
		}
	}
	for len(changes) > 0 {
		n := p.PageOf(changes[0].Row)
		k := 1
		for k < len(changes) && p.PageOf(changes[k].Row) == n {
			k++
		}
		p.post(n, changes[:k], epoch)
		changes = changes[k:]
	}
}

func (p *Pages) post(n int, changes []Change, epoch uint32) {
	for range record.MaxTries {
		pg, cas, st := p.read(n)
		if !st.OK() {
			return
		}
		buf, ok := pg.appendChanged(p.buf[:0], changes, epoch)
		p.buf = buf
		if !ok {
			return
		}
		if done, err := p.table.Set(p.Key(n), buf, cas); done || err != nil {
			return
		}
	}
}
