package ledger

import "strconv"

// The levels at which limits count, innermost first.
const (
	atScope = iota
	atPrincipal
	atPolicy
	levels
)

// levelRows are the rows that one entry counts in.
type levelRows [levels]uint64

func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

func rowsOf(policy, principal, scope uint64) levelRows {
	return levelRows{
		atScope:     mix(mix(policy+3) ^ scope),
		atPrincipal: mix(mix(policy+2) ^ principal),
		atPolicy:    mix(policy + 1),
	}
}

func (e entry) rows() levelRows { return rowsOf(e.policy(), e.principal(), e.scope()) }

// caps are the limits of one level; 0 = none.
func (l *Limits) caps(level int) counts {
	switch level {
	case atScope:
		return counts{int32(l.EntriesPerScope), int32(l.InFlightPerScope), int32(l.TombstonesPerScope)}
	case atPrincipal:
		return counts{int32(l.EntriesPerPrincipal), int32(l.InFlightPerPrincipal), 0}
	}
	return counts{int32(l.Entries), int32(l.InFlight), 0}
}

// reservation is what became of the wish for room.
type reservation struct {
	got     bool
	stale   bool          // the bucket has changed: start again
	failed  bool          // the table cannot tell
	level   int           // the level that is full
	evict   bool          // giving up a completed entry of it would help
	tombs   bool          // what is full are its tombstones, none of them a reserved one
	passing bool          // what is full comes back as calls in flight end
	settled [levels]int32 // completed entries that the rows looked at know of
}

// reserve makes room in all three rows of an entry, innermost first, before its bucket
// says so: a crash between the two leaves a count too high, never too low.
func (s *Shared) reserve(rows *levelRows, d counts, l *Limits, epoch uint32) (r reservation) {
	for level, row := range rows {
		if s.cache.take(row, epoch, d) {
			continue
		}
		if !s.reserveOne(&r, level, change{row, d}, l, epoch) {
			s.undo(rows, level, d, epoch)
			return r
		}
	}
	r.got = true
	return r
}

func (s *Shared) reserveOne(r *reservation, level int, c change, l *Limits, epoch uint32) bool {
	r.level = level
	caps := l.caps(level)
	n := s.pageOf(c.row)
	for range maxTries {
		p, cas, ok := s.readPage(n)
		if !ok {
			r.failed = true
			return false
		}
		var main counts
		if at := findRow(p.rows(), c.row); at >= 0 {
			main = countsAt(p.rows()[at+offMain:])
		}
		r.settled[level] = main.entries - main.tombs
		after := main.plus(c.delta)
		over := func(d, after, limit int32) bool { return d > 0 && limit > 0 && after > limit }
		if over(c.delta.inFlight, after.inFlight, caps.inFlight) {
			r.passing = true
			return false
		}
		if over(c.delta.tombs, after.tombs, caps.tombs) {
			r.tombs, r.passing = true, main.inFlight > 0
			return false
		}
		if over(c.delta.entries, after.entries, caps.entries) {
			r.evict = true
			return false
		}
		extra := s.prefetch(level, c, after, l, epoch)
		buf, stale := p.post(s.pageBuf[:0], []change{{c.row, c.delta.plus(extra)}}, epoch)
		s.pageBuf = buf
		if stale {
			r.stale = true
			return false
		}
		done, err := s.table.Set(s.pageKey(n), buf, cas)
		if err != nil {
			r.failed = true
			return false
		}
		if done {
			if extra != (counts{}) && !s.cache.put(c.row, epoch, extra) {
				s.post([]change{{c.row, counts{}.minus(extra)}}, epoch)
			}
			return true
		}
	}
	r.failed = true
	return false
}

// prefetch is what to reserve ahead with a claim: only entries, since what is in flight
// comes back, and only below half of the cap.
func (s *Shared) prefetch(level int, c change, after counts, l *Limits, epoch uint32) counts {
	n := l.cacheable(level).entries - s.cache.of(c.row, epoch).entries
	if limit := l.caps(level).entries; s.cache.none || c.delta.entries <= 0 || n <= 0 || after.entries+n > limit/2 {
		return counts{}
	}
	return counts{entries: n}
}

// undo gives back what was reserved at the levels below one.
func (s *Shared) undo(rows *levelRows, below int, d counts, epoch uint32) {
	var changes [levels]change
	for i := range below {
		changes[i] = change{rows[i], counts{}.minus(d)}
	}
	s.post(changes[:below], epoch)
}

// release says that an entry of this worker's own uses less, and keeps what the next
// claim may need.
func (s *Shared) release(rows levelRows, d counts, l *Limits, epoch uint32) {
	var changes [levels]change
	n := 0
	for level, row := range rows {
		if rest := s.cache.keep(row, epoch, d, l.cacheable(level)); rest != (counts{}) {
			changes[n] = change{row, counts{}.minus(rest)}
			n++
		}
	}
	s.post(changes[:n], epoch)
}

// returnQuota says in the rows what a bucket has said already: that an entry uses less.
func (s *Shared) returnQuota(rows levelRows, d counts, epoch uint32) {
	if d == (counts{}) {
		return
	}
	s.undo(&rows, levels, d, epoch)
}

// post applies changes, page by page. What cannot be written leaves a count too high,
// which the next recount puts right.
func (s *Shared) post(changes []change, epoch uint32) {
	// Insertion sort by page: the changes are few.
	for i := range changes {
		for j := i; j > 0 && s.pageOf(changes[j].row) < s.pageOf(changes[j-1].row); j-- {
			changes[j], changes[j-1] = changes[j-1], changes[j]
		}
	}
	for len(changes) > 0 {
		n := s.pageOf(changes[0].row)
		k := 1
		for k < len(changes) && s.pageOf(changes[k].row) == n {
			k++
		}
		s.postPage(n, changes[:k], epoch)
		changes = changes[k:]
	}
}

func (s *Shared) postPage(n int, changes []change, epoch uint32) {
	for range maxTries {
		p, cas, ok := s.readPage(n)
		if !ok {
			return
		}
		buf, stale := p.post(s.pageBuf[:0], changes, epoch)
		s.pageBuf = buf
		if stale {
			return
		}
		if done, err := s.table.Set(s.pageKey(n), buf, cas); done || err != nil {
			return
		}
	}
}

func (s *Shared) pageOf(row uint64) int { return int(mix(row^s.pageSalt) % uint64(s.layout.Pages)) }

func (s *Shared) pageKey(n int) string {
	if s.pageKeys[n] == "" {
		s.pageKeys[n] = s.prefix + "p/" + strconv.Itoa(n)
	}
	return s.pageKeys[n]
}

func (s *Shared) readPage(n int) (page, uint32, bool) {
	v, cas, found, err := s.table.Get(s.pageKey(n))
	switch {
	case err != nil:
		return nil, 0, false
	case !found:
		return nil, InsertIfAbsent, true
	case len(v) == 0 || !page(v).valid():
		s.foreign(s.pageKey(n))
		return nil, 0, false
	}
	return v, cas, true
}
