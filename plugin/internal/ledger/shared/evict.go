package shared

import (
	"slices"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/quota"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// evict evicts one completed entry of the level that is full: the oldest, at the
// policy's level the oldest of the asking principal first. ok is false where there is
// none.
func (s *Shared) evict(r *quota.Reservation, c *ledger.Claim, now ledger.Mono) (ok bool) {
	if r.Settled[r.Level] <= 0 {
		return false
	}
	if r.Level == quota.Policy && r.Settled[quota.Principal] > 0 && s.evictOldest(quota.Principal, c, now) {
		return true
	}
	return s.evictOldest(r.Level, c, now)
}

// evictOldest evicts the oldest completed entry of a level, out of what a scan has found, or finds now.
func (s *Shared) evictOldest(level int, c *ledger.Claim, now ledger.Mono) bool {
	rows := quota.RowsOf(c.Policy, c.Principal, c.Scope)
	of := group{level, c.Principal, c.Scope}
	known := s.evictable[c.Policy]
	for scanned := false; ; scanned = true {
		if known != nil && (known.row == rows[quota.Policy] || known.row == rows[level]) {
			for a, ok := known.take(&of); ok; a, ok = known.take(&of) {
				if s.evictEntry(&a, now) {
					return true
				}
			}
		}
		switch {
		case scanned:
			return false
		case s.scans == 0:
			return s.evictSampled(&of, c.Policy, now)
		}
		s.scans--
		known = known.wider(&rows, level)
		s.scan(known, c.Policy, &of)
		s.evictable[c.Policy] = known
	}
}

// evictSampled evicts the oldest of the first few of a group that it meets, from where the
// search before it ended, one turn of the table at most.
func (s *Shared) evictSampled(of *group, policy uint64, now ledger.Mono) bool {
	if s.vain == 0 {
		return false
	}
	var few candidates
	add := func(a candidate) {
		if of.has(&a) {
			few.list = append(few.list, a)
		}
	}
	for n := range s.layout.Buckets {
		s.gather(s.searched, policy, add)
		s.searched = (s.searched + 1) % s.layout.Buckets
		if len(few.list) < sampled && n < s.layout.Buckets-1 {
			continue
		}
		few.trim()
		for i := range few.list {
			if s.evictEntry(&few.list[i], now) {
				return true
			}
		}
		few.list = few.list[:0]
	}
	s.vain--
	return false
}

// evictEntry frees a completed entry, if it is still what the scan saw.
func (s *Shared) evictEntry(a *candidate, now ledger.Mono) bool {
	for range record.MaxTries {
		b := s.buckets.Read(int(a.bucket))
		if !b.OK() {
			return false
		}
		e := a.in(b.Bucket)
		if e == nil {
			return false
		}
		evicted, ok := state.Turn(e.State(), ledger.Evict)
		if !ok {
			return false
		}
		id := e.ID()
		s.buf = record.AppendWithout(s.buf[:0], b.Bucket, &id)
		done, err := s.buckets.Swap(&b, s.buf)
		if err != nil {
			return false
		}
		if done {
			rows := rowsOf(e)
			s.quota.Return(&rows, evicted.Return, nil, b.Epoch)
			if !expired(e, now) {
				s.tellEvicted(e, now)
			}
			return true
		}
	}
	return false
}

func (s *Shared) tellEvicted(e record.Entry, now ledger.Mono) {
	s.tell(ledger.Evicted, e.Policy())
	if s.env.Evicted != nil {
		s.env.Evicted(e.Policy(), time.Duration(now-e.Settled()))
	}
}

// scan gathers the oldest entries of a policy that can be evicted; where known is of one level only, those of the group.
func (s *Shared) scan(known *candidates, policy uint64, of *group) {
	for n := range s.layout.Buckets {
		s.gather(n, policy, func(a candidate) {
			if known.wide || of.has(&a) {
				known.list = append(known.list, a)
			}
		})
		if len(known.list) >= 2*candidatesKept {
			known.trim()
		}
	}
	known.trim()
}

// gather gives the entries of a policy in one bucket that can be evicted.
func (s *Shared) gather(bucket int, policy uint64, give func(candidate)) {
	b := s.buckets.Read(bucket)
	if !b.OK() {
		return
	}
	b.Bucket.Each(func(w record.Entry) bool {
		w = record.Current(w)
		if !w.Readable() || w.Policy() != policy {
			return true
		}
		// What an operator said of a key is not forgotten for the sake of others.
		if _, evictable := state.Next(w.State(), ledger.Evict); evictable && w.Flags()&record.FlagElsewhere == 0 {
			give(candidate{w.Settled(), w.Fence(), w.Principal(), w.Scope(), int32(bucket)})
		}
		return true
	})
}

// To evict the oldest completed entry of a level one must know it. No record keeps
// that order: a full scan of the buckets does, whose result serves for as many
// evictions as it found entries, since what is completed later is younger. So a claim
// at a full level costs a few reads, and now and then a scan (4,096 reads).
const (
	// candidatesKept bounds what a scan remembers. In a policy of more completed entries
	// a level whose oldest is not among them costs a scan of its own.
	candidatesKept = 4096
	// scansPerTick bounds the scans of one worker between two ticks. A claim beyond it evicts
	// the oldest of the first few that a shorter search meets: where n of B buckets hold one, a
	// search reads about sampled·B/n of them, and never more than all.
	scansPerTick = 4
	sampled      = 8
	// vainPerTick bounds the searches that find nothing: where a count is too high, for a
	// worker died, each would read the whole table.
	vainPerTick = 4
)

// candidate is a completed entry as a scan saw it. The fence names it in its bucket.
type candidate struct {
	settled          ledger.Mono
	fence            uint64
	principal, scope uint64
	bucket           int32
}

// in gives the entry, nil where it is not there any more.
func (a *candidate) in(b record.Bucket) (e record.Entry) {
	b.Each(func(w record.Entry) bool {
		if w = record.Current(w); w.Readable() && w.Fence() == a.fence && w.Settled() == a.settled {
			e = w
		}
		return e == nil
	})
	return e
}

// group is whose entries may be evicted: those of the level of one claim.
type group struct {
	level            int
	principal, scope uint64
}

func (g *group) has(a *candidate) bool {
	return g.level == quota.Policy || g.level == quota.Principal && a.principal == g.principal || g.level == quota.Scope && a.scope == g.scope
}

// candidates are the oldest completed entries of a row, oldest first.
type candidates struct {
	row       uint64
	wide      bool // of a policy's row
	list      []candidate
	truncated bool // there were more than are kept
}

// wider is what to scan for next: all that a policy has, or, where that was more than is kept, the row of a level.
func (k *candidates) wider(rows *quota.Rows, level int) *candidates {
	if k == nil || !k.truncated {
		return &candidates{row: rows[quota.Policy], wide: true}
	}
	return &candidates{row: rows[level], truncated: true}
}

// take takes the oldest of a group out of the list.
func (k *candidates) take(of *group) (a candidate, ok bool) {
	for i := range k.list {
		if of.has(&k.list[i]) {
			a = k.list[i]
			k.list = slices.Delete(k.list, i, i+1)
			return a, true
		}
	}
	return a, false
}

// trim keeps the oldest.
func (k *candidates) trim() {
	slices.SortFunc(k.list, func(a, b candidate) int {
		switch {
		case a.settled != b.settled:
			return int(max(min(a.settled-b.settled, 1), -1))
		case a.bucket != b.bucket:
			return int(a.bucket - b.bucket)
		}
		return int(max(min(int64(a.fence-b.fence), 1), -1))
	})
	if len(k.list) > candidatesKept {
		k.list, k.truncated = k.list[:candidatesKept], true
	}
}
