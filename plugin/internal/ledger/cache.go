package ledger

// A worker keeps a few places in rows that it has reserved and does not use yet: what a
// settlement gives back serves the next claim, and a claim reserves a few entries ahead.
// So most claims and settlements need no page. A place counts as used while it is held:
// limits are never exceeded, and are reached a little early.
//
// A place belongs to the epoch under which it was reserved, and serves only in buckets
// of that epoch: a recount does not know of it. All are given back at every tick.
type quotaCache struct {
	list []cachedQuota
	// slots finds them: a table of places in the list, plus one, 0 = free. Rows are hashes
	// already, and nothing is ever taken out but all.
	slots []uint16
	none  bool // a limit was reached: hold nothing until the next tick
}

type cacheKey struct {
	row   uint64
	epoch uint32
}

type cachedQuota struct {
	key    cacheKey
	counts counts
}

const (
	// mostCached is the most of each kind that a worker holds in one row.
	mostCached = 8
	// mostCachedRows bounds the rows in which places are held, and with it the work of a tick.
	mostCachedRows = 512
	cacheSlots     = 2 * mostCachedRows
)

// A worker holds one place for so many of a cap, so that 32 workers hold at most half of
// it. Tests that want places of small caps change it.
var capPerCached int32 = 64

// cacheable says how many places of each kind may be held at a level. Small caps stay exact,
// and where entries are given up nothing may look used that is not.
func (l *Limits) cacheable(level int) counts {
	if l.OnFullEvict {
		return counts{}
	}
	c := l.caps(level)
	few := func(limit int32) int32 { return min(limit/capPerCached, mostCached) }
	d := counts{entries: few(c.entries), inFlight: few(c.inFlight)}
	d.tombs = d.inFlight
	if c.tombs > 0 {
		d.tombs = min(d.tombs, few(c.tombs))
	}
	return d
}

func (a counts) covers(b counts) bool {
	return a.entries >= b.entries && a.inFlight >= b.inFlight && a.tombs >= b.tombs
}

func (a counts) upTo(b counts) counts {
	return counts{min(a.entries, b.entries), min(a.inFlight, b.inFlight), min(a.tombs, b.tombs)}
}

// of gives what is held in a row for buckets of an epoch.
func (p *quotaCache) of(row uint64, epoch uint32) counts {
	if i, _ := p.find(cacheKey{row, epoch}); i >= 0 {
		return p.list[i].counts
	}
	return counts{}
}

// find gives the index in the list, or -1 and the slot for it.
func (p *quotaCache) find(k cacheKey) (i, slot int) {
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

// put adds to what is held, or takes from it. ok is false where no more rows are kept.
func (p *quotaCache) put(row uint64, epoch uint32, d counts) (ok bool) {
	k := cacheKey{row, epoch}
	i, slot := p.find(k)
	if i < 0 {
		if p.none || len(p.list) >= mostCachedRows {
			return false
		}
		if p.slots == nil {
			p.slots = make([]uint16, cacheSlots)
		}
		i = len(p.list)
		p.list = append(p.list, cachedQuota{key: k})
		p.slots[slot] = uint16(i + 1)
	}
	p.list[i].counts = p.list[i].counts.plus(d)
	return true
}

// take uses places that are held.
func (p *quotaCache) take(row uint64, epoch uint32, d counts) bool {
	if !p.of(row, epoch).covers(d) {
		return false
	}
	return p.put(row, epoch, counts{}.minus(d))
}

// storeReply holds as much of what one row gets back as the limits allow, and gives the rest.
func (p *quotaCache) keep(row uint64, epoch uint32, d, ahead counts) (rest counts) {
	room := ahead.minus(p.of(row, epoch))
	k := d.upTo(counts{max(room.entries, 0), max(room.inFlight, 0), max(room.tombs, 0)})
	if k == (counts{}) || !p.put(row, epoch, k) {
		return d
	}
	return d.minus(k)
}

// returnCached gives all places back, page by page; none says that no others may be held until
// it is called again. It reports whether there were any.
func (s *Shared) returnCached(none bool) (any bool) {
	list := s.cache.list
	s.cache = quotaCache{none: none}
	for len(list) > 0 {
		epoch := list[0].key.epoch
		var changes []change
		rest := list[:0:0]
		for _, h := range list {
			switch {
			case h.key.epoch != epoch:
				rest = append(rest, h)
			case h.counts != (counts{}):
				changes = append(changes, change{h.key.row, counts{}.minus(h.counts)})
			}
		}
		any = any || len(changes) > 0
		s.post(changes, epoch)
		list = rest
	}
	return any
}
