package quota

import (
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// Caps are the limits of one level; 0 = none.
func Caps(l *ledger.Limits, level int) state.Counts {
	switch level {
	case Scope:
		return state.Counts{Entries: int32(l.EntriesPerScope), InFlight: int32(l.InFlightPerScope), Tombs: int32(l.TombstonesPerScope)}
	case Principal:
		return state.Counts{Entries: int32(l.EntriesPerPrincipal), InFlight: int32(l.InFlightPerPrincipal)}
	}
	return state.Counts{Entries: int32(l.Entries), InFlight: int32(l.InFlight)}
}

// capPerCached: a worker caches one of so many of a cap, so that 32 workers cache at most half of it.
const capPerCached = 64

// cacheable says how much of each kind may be cached at a level. Small caps stay exact,
// and where entries are evicted nothing may look used that is not.
func cacheable(l *ledger.Limits, level int, perCached int32) state.Counts {
	if l.OnFullEvict {
		return state.Counts{}
	}
	c := Caps(l, level)
	few := func(limit, most int32) int32 { return min(limit/perCached, most) }
	d := state.Counts{Entries: few(c.Entries, mostEntriesCached), InFlight: few(c.InFlight, mostCached)}
	d.Tombs = d.InFlight
	if c.Tombs > 0 {
		d.Tombs = min(d.Tombs, few(c.Tombs, mostCached))
	}
	return d
}

// Reservation is what became of the wish for quota.
type Reservation struct {
	Got    bool
	Stale  bool // the bucket has changed: start again
	Failed bool // the table cannot tell
	// Of a level that is full:

	Level   int
	Evict   bool // evicting a completed entry of it would help
	Tombs   bool // what is full are its tombstones, none of them a reserved one
	Passing bool // what is full comes back as calls in flight end
	// Settled is how many completed entries the rows looked at know of.
	Settled [Levels]int32
}

// fits decides whether a row of r's level that says main has room for a change, and how much to reserve ahead with it where so much is cached of
// the row already: only entries, since what is in flight comes back, and only below half of the cap.
func (r *Reservation) fits(main, d state.Counts, l *ledger.Limits, perCached int32, have state.Counts) (ahead state.Counts, ok bool) {
	caps, after := Caps(l, r.Level), main.Plus(d)
	r.Settled[r.Level] = main.Entries - main.Tombs
	over := func(d, after, limit int32) bool { return d > 0 && limit > 0 && after > limit }
	switch {
	case over(d.InFlight, after.InFlight, caps.InFlight):
		r.Passing = true
		return ahead, false
	case over(d.Tombs, after.Tombs, caps.Tombs):
		r.Tombs, r.Passing = true, main.InFlight > 0
		return ahead, false
	case over(d.Entries, after.Entries, caps.Entries):
		r.Evict = true
		return ahead, false
	}
	n := cacheable(l, r.Level, perCached).Entries - have.Entries
	if d.Entries > 0 && n > 0 && after.Entries+n <= caps.Entries/2 {
		ahead.Entries = n
	}
	return ahead, true
}
