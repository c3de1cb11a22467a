package quota

import (
	"bytes"
	"testing"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// table is shared data of one worker.
type table struct {
	cells      map[string][]byte
	gets, sets int
}

func (t *table) Get(key string) ([]byte, uint32, bool, error) {
	t.gets++
	v, ok := t.cells[key]
	return bytes.Clone(v), 1, ok, nil
}

func (t *table) Set(key string, v []byte, _ uint32) (bool, error) {
	t.sets++
	t.cells[key] = bytes.Clone(v)
	return true, nil
}

func newPages(n int) (*Pages, *table) {
	t := &table{cells: map[string][]byte{}}
	return New(&record.Table{Table: t, Foreign: func(string) {}}, "x/", n, 3), t
}

func (t *table) says(p *Pages, row uint64) state.Counts {
	return Page(t.cells[p.Key(p.PageOf(row))]).Says(row)
}

func counts(entries, inFlight, tombs int32) state.Counts {
	return state.Counts{Entries: entries, InFlight: inFlight, Tombs: tombs}
}

// One page is written with all changes of its rows: of present ones, absent ones, of one row several; rows of nothing go.
func TestChangesOfOneRow(t *testing.T) {
	p, ok := Page(nil).appendChanged(nil, []Change{{1, counts(1, 1, 1)}, {2, counts(5, 0, 0)}, {1, counts(2, 0, 0)}}, 0)
	if !ok || Page(p).Says(1) != counts(3, 1, 1) || Page(p).Says(2) != counts(5, 0, 0) || len(p) != PageHeader+2*RowSize || !Page(p).Valid() {
		t.Fatalf("%v: %x", ok, p)
	}
	p, ok = Page(p).appendChanged(nil, []Change{{2, counts(-5, 0, 0)}, {1, counts(-1, -1, -1)}, {1, counts(-1, 0, 0)}, {3, counts(-1, 0, 0)}}, 0)
	if !ok || Page(p).Says(1) != counts(1, 0, 0) || Page(p).has(2) || Page(p).Says(3) != counts(-1, 0, 0) || len(p) != PageHeader+2*RowSize {
		t.Fatalf("%v: %x", ok, p)
	}
}

// A recount, step by step: what it does not know goes into the shadow, what it knows is dropped.
func TestRecount(t *testing.T) {
	p, tab := newPages(1)
	p.Post([]Change{{1, counts(9, 0, 0)}, {2, counts(4, 0, 0)}}, 0) // both too high: a crash
	if !p.Begin(0, 5) || p.Begin(0, 5) || p.Begin(0, 4) {
		t.Fatal("a recount begins once, and none of an older epoch")
	}
	var counted Tally
	p.Count(&counted, &Rows{1, 1, 7}, ledger.Completed, 40)
	p.Count(&counted, &Rows{1, 1, 7}, ledger.Unknown, 30)
	p.Post([]Change{{1, counts(1, 0, 0)}}, 0) // from a bucket that it has not counted yet: the count will see it
	p.Post([]Change{{1, counts(1, 1, 1)}}, 5) // from one that it has
	if p.Install(0, 4, &counted) || !p.Install(0, 5, &counted) || p.Install(0, 5, &counted) {
		t.Fatal("a recount is installed once, and none of another epoch")
	}
	for row, want := range map[uint64]state.Counts{1: counts(5, 1, 3), 2: {}, 7: counts(2, 0, 1)} {
		if got := tab.says(p, row); got != want {
			t.Errorf("row %d says %v, want %v", row, got, want)
		}
	}
	before := tab.says(p, 1)
	p.Post([]Change{{1, counts(1, 0, 0)}}, 4)
	if got := tab.says(p, 1); got != before {
		t.Errorf("a change from a bucket that has been counted since: %v, before %v", got, before)
	}
	if r := p.Reserve(&Rows{1, 2, 3}, counts(1, 1, 1), &ledger.Limits{}, 4); !r.Stale || r.Got {
		t.Errorf("a reservation for such a bucket: %+v", r)
	}
	if got := p.Due(1); got != (record.Due{Entry: 30, Tombstone: 30}) {
		t.Errorf("it saw that row 1 ends at %v", got)
	}
	if got := p.Due(2); got != (record.Due{}) {
		t.Errorf("it saw that row 2 ends at %v", got)
	}
}

// All or nothing is reserved, and what a full level says.
func TestReserve(t *testing.T) {
	p, tab := newPages(4)
	rows := RowsOf(1, 2, 3)
	need := counts(1, 1, 1)
	limits := ledger.Limits{Entries: 3, InFlight: 2, EntriesPerScope: 4, TombstonesPerScope: 5}
	for range 2 {
		if r := p.Reserve(&rows, need, &limits, 0); !r.Got {
			t.Fatalf("%+v", r)
		}
	}
	if r := p.Reserve(&rows, need, &limits, 0); r.Got || r.Level != Policy || !r.Passing || r.Evict {
		t.Errorf("no room in flight: %+v", r)
	}
	p.Return(&rows, counts(0, 2, 2), nil, 0)
	if r := p.Reserve(&rows, need, &limits, 0); !r.Got {
		t.Fatalf("%+v", r)
	}
	p.Return(&rows, counts(0, 1, 1), nil, 0)
	if r := p.Reserve(&rows, need, &limits, 0); r.Got || !r.Evict || r.Passing || r.Settled != [Levels]int32{3, 3, 3} {
		t.Errorf("no room for an entry: %+v", r)
	}
	limits.Entries, limits.TombstonesPerScope = 0, 0
	p.Return(&rows, counts(0, 0, -5), nil, 0)
	limits.TombstonesPerScope = 5
	if r := p.Reserve(&rows, need, &limits, 0); r.Got || !r.Tombs || r.Passing || r.Level != Scope {
		t.Errorf("no room for a tombstone: %+v", r)
	}
	for _, row := range rows {
		if got := tab.says(p, row); got != counts(3, 0, 5) {
			t.Errorf("a level says %v: refused claims left something", got)
		}
	}
}

// A claim reserves entries ahead, below half of the cap; a settlement leaves quota for the next claim, which then needs no page; a tick
// returns all of it.
func TestReserveAhead(t *testing.T) {
	p, tab := newPages(4)
	p.CacheOneOf(2)
	rows := RowsOf(1, 2, 3)
	limits := ledger.Limits{Entries: 12, EntriesPerPrincipal: 12, EntriesPerScope: 12, InFlight: 12, InFlightPerPrincipal: 12, InFlightPerScope: 12, TombstonesPerScope: 12}
	if r := p.Reserve(&rows, counts(1, 1, 1), &limits, 0); !r.Got {
		t.Fatalf("%+v", r)
	}
	if got := tab.says(p, rows[Scope]); got != counts(1, 1, 1) {
		t.Errorf("six ahead would pass half of the cap: %v", got)
	}
	p.Return(&rows, counts(1, 1, 1), &limits, 0)
	if got := tab.says(p, rows[Scope]); got != counts(1, 1, 1) {
		t.Errorf("what is cached counts: %v", got)
	}
	sets := tab.sets
	if r := p.Reserve(&rows, counts(1, 1, 1), &limits, 0); !r.Got || tab.sets != sets {
		t.Errorf("out of the cache: %+v, %d pages written", r, tab.sets-sets)
	}
	p.Return(&rows, counts(1, 1, 1), &limits, 0)
	if r := p.Reserve(&rows, counts(1, 1, 1), &limits, 1); !r.Got || tab.sets == sets {
		t.Errorf("in a bucket of another epoch: %+v, %d pages written", r, tab.sets-sets)
	}
	p.Return(&rows, counts(1, 1, 1), nil, 1)
	if !p.ReturnCached(false) || p.ReturnCached(false) {
		t.Error("all is returned, once")
	}
	for _, row := range rows {
		if got := tab.says(p, row); got != (state.Counts{}) {
			t.Errorf("a level still says %v", got)
		}
	}
	limits.Entries, limits.EntriesPerPrincipal, limits.EntriesPerScope = 100, 100, 100
	if r := p.Reserve(&rows, counts(1, 1, 1), &limits, 0); !r.Got || tab.says(p, rows[Scope]) != counts(33, 1, 1) {
		t.Errorf("below half of the cap 32 are reserved ahead: %v", tab.says(p, rows[Scope]))
	}
	for n := range 31 {
		sets := tab.sets
		if r := p.Reserve(&rows, counts(1, 0, 0), &limits, 0); !r.Got || tab.sets != sets {
			t.Fatalf("entry %d of those ahead: %+v, %d pages written", n, r, tab.sets-sets)
		}
	}
	limits.OnFullEvict = true
	p.Return(&rows, counts(0, 1, 1), &limits, 0)
	if got := tab.says(p, rows[Scope]); got != counts(33, 0, 0) {
		t.Errorf("where entries are evicted nothing is cached: %v", got)
	}
}

// Calls in flight come back, so that fewer of them are cached than entries, which do not.
func TestCachedCallsAreFew(t *testing.T) {
	p, _ := newPages(4)
	const many = 1 << 20
	limits := ledger.Limits{Entries: many, EntriesPerPrincipal: many, EntriesPerScope: many, InFlight: many, InFlightPerPrincipal: many, InFlightPerScope: many, TombstonesPerScope: many}
	rows := RowsOf(1, 2, 3)
	for range 40 {
		if r := p.Reserve(&rows, counts(1, 1, 1), &limits, 0); !r.Got {
			t.Fatalf("%+v", r)
		}
	}
	p.Return(&rows, counts(40, 40, 40), &limits, 0)
	p.EachCached(func(_ uint64, _ uint32, d state.Counts) {
		if d != counts(32, 8, 8) {
			t.Errorf("cached: %v", d)
		}
	})
}

// Of a cap at most so many are cached, whatever a worker may cache.
func TestCachedOfACap(t *testing.T) {
	p, tab := newPages(4)
	p.CacheOneOf(4)
	rows := RowsOf(1, 2, 3)
	limits := ledger.Limits{Entries: 100, EntriesPerPrincipal: 100, EntriesPerScope: 100}
	if r := p.Reserve(&rows, counts(1, 0, 0), &limits, 0); !r.Got || tab.says(p, rows[Scope]) != counts(26, 0, 0) {
		t.Errorf("a quarter of the cap ahead: %v", tab.says(p, rows[Scope]))
	}
}

// However many rows claims meet between two ticks, quota of so many is cached and no more.
func TestCacheIsBounded(t *testing.T) {
	p, _ := newPages(4)
	limits := ledger.Limits{EntriesPerScope: 1000}
	for n := range uint64(2 * MostCachedRows) {
		rows := RowsOf(1, n, n)
		p.Reserve(&rows, counts(1, 0, 0), &limits, 0)
	}
	n := 0
	p.EachCached(func(uint64, uint32, state.Counts) { n++ })
	if n != MostCachedRows {
		t.Errorf("%d rows are cached", n)
	}
	p.ReturnCached(true)
	rows := RowsOf(2, 2, 2)
	p.Reserve(&rows, counts(1, 0, 0), &limits, 0)
	p.EachCached(func(uint64, uint32, state.Counts) { t.Error("cached although nothing may be") })
}

// A foreign page is left alone: what needs it fails, and a recount passes it over.
func TestForeignPage(t *testing.T) {
	for _, value := range []string{"", "foreign", "cp\x01\x00", "cp\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00", "cp\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00half a row"} {
		p, tab := newPages(1)
		tab.cells[p.Key(0)] = []byte(value)
		rows := RowsOf(1, 2, 3)
		if r := p.Reserve(&rows, counts(1, 1, 1), &ledger.Limits{}, 0); !r.Failed || r.Got {
			t.Errorf("%q: %+v", value, r)
		}
		if !p.Begin(0, 1) || !p.Install(0, 1, &Tally{}) || !p.Runs(rows[Scope]) {
			t.Errorf("%q: a recount does not pass it over", value)
		}
		p.Post([]Change{{1, counts(1, 0, 0)}}, 0)
		if got := string(tab.cells[p.Key(0)]); got != value {
			t.Errorf("%q is now %q", value, got)
		}
	}
}
