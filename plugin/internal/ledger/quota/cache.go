package quota

import (
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// A worker caches some quota: it has reserved it and does not use it yet. What a
// settlement stops to use serves the next claim, and a claim reserves a few entries ahead.
// So most claims and settlements need no page. Cached quota counts as used: limits are
// never exceeded, and are reached a little early.
//
// It belongs to the epoch under which it was reserved, and serves only in buckets
// of that epoch: a recount does not know of it. All of it is returned at every tick.
type cache struct {
	list []cached
	// slots finds them: a table of indices in the list, plus one, 0 = none. Rows are hashes
	// already, and nothing is ever taken out but all.
	slots []uint16
	none  bool // a limit was reached: cache nothing until the next tick
}

type cacheKey struct {
	row   uint64
	epoch uint32
}

type cached struct {
	key    cacheKey
	counts state.Counts
}

const (
	// mostCached is the most calls in flight, and tombstones, that a worker caches in one row: they come back as calls end.
	mostCached = 8
	// mostEntriesCached is that of entries, of which each first call uses one up.
	mostEntriesCached = 32
	// MostCachedRows bounds the rows in which quota is cached, and with it the work of a tick.
	MostCachedRows = 512
	cacheSlots     = 2 * MostCachedRows
)

func covers(a, b state.Counts) bool {
	return a.Entries >= b.Entries && a.InFlight >= b.InFlight && a.Tombs >= b.Tombs
}

// least is the lesser of each kind, and at least 0.
func least(a, b state.Counts) state.Counts {
	return state.Counts{
		Entries: min(a.Entries, max(b.Entries, 0)), InFlight: min(a.InFlight, max(b.InFlight, 0)), Tombs: min(a.Tombs, max(b.Tombs, 0)),
	}
}

// of gives what is cached of a row for buckets of an epoch.
func (p *cache) of(row uint64, epoch uint32) state.Counts {
	if i, _ := p.find(cacheKey{row, epoch}); i >= 0 {
		return p.list[i].counts
	}
	return state.Counts{}
}

// find gives the index in the list, or -1 and the slot for it.
func (p *cache) find(k cacheKey) (i, slot int) {
	if p.slots == nil {
		return -1, int(k.row % cacheSlots)
	}
	for slot = int(k.row % cacheSlots); ; slot = (slot + 1) % cacheSlots {
		i = int(p.slots[slot]) - 1
		if i < 0 || p.list[i].key == k {
			return i, slot
		}
	}
}

// put adds to what is cached, or takes from it. ok is false where no more rows are kept.
func (p *cache) put(row uint64, epoch uint32, d state.Counts) (ok bool) {
	k := cacheKey{row, epoch}
	i, slot := p.find(k)
	if i < 0 {
		if p.none || len(p.list) >= MostCachedRows {
			return false
		}
		if p.slots == nil {
			p.slots = make([]uint16, cacheSlots)
		}
		i = len(p.list)
		p.list = append(p.list, cached{key: k})
		p.slots[slot] = uint16(i + 1)
	}
	p.list[i].counts = p.list[i].counts.Plus(d)
	return true
}

// take uses cached quota, if there is enough of it; have is what there was.
func (p *cache) take(row uint64, epoch uint32, d state.Counts) (have state.Counts, ok bool) {
	have = p.of(row, epoch)
	return have, covers(have, d) && p.put(row, epoch, minus(d))
}

// keep caches as much of what is returned to one row as may be, and gives the rest.
func (p *cache) keep(row uint64, epoch uint32, d, may state.Counts) (rest state.Counts) {
	k := least(d, may.Minus(p.of(row, epoch)))
	if k == (state.Counts{}) || !p.put(row, epoch, k) {
		return d
	}
	return d.Minus(k)
}
