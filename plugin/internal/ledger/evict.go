package ledger

import (
	"slices"
	"time"
)

// To give up the oldest completed entry of a level one must know it. No record keeps
// that order: a full scan of the buckets does, whose result serves for as many
// evictions as it found entries, since what is completed later is younger. So a claim
// at a full level costs a few reads, and now and then a scan (4,096 reads).
const (
	// candidatesKept bounds what a scan remembers. In a policy of more completed entries
	// a level whose oldest is not among them costs a scan of its own.
	candidatesKept = 4096
	// scansPerTick bounds the scans of one worker between two ticks: a claim beyond it is
	// refused although something may be evictable.
	scansPerTick = 4
)

// candidate is a completed entry as a scan saw it. The fence names it in its bucket.
type candidate struct {
	settled          Mono
	fence            uint64
	principal, scope uint64
	bucket           int32
}

// candidates are the oldest completed entries of a row, oldest first.
type candidates struct {
	row       uint64
	list      []candidate
	truncated bool
}

// evict gives up one completed entry of the level that is full: the oldest, at the
// policy's level the oldest of the asking principal first. ok is false where there is
// none.
func (s *Shared) evict(r *reservation, policy uint64, c *Claim, now Mono) (ok bool) {
	if r.settled[r.level] <= 0 {
		return false
	}
	rows := rowsOf(policy, c.Principal, c.Scope)
	if r.level == atPolicy && r.settled[atPrincipal] > 0 && s.evictOldest(policy, atPrincipal, &rows, c, now) {
		return true
	}
	return s.evictOldest(policy, r.level, &rows, c, now)
}

func (s *Shared) evictOldest(policy uint64, level int, rows *levelRows, c *Claim, now Mono) bool {
	of := func(a *candidate) bool {
		return level == atPolicy || level == atPrincipal && a.principal == c.Principal || level == atScope && a.scope == c.Scope
	}
	known := s.evictable[policy]
	for scanned := false; ; scanned = true {
		if known != nil && (known.row == rows[atPolicy] || known.row == rows[level]) && s.evictFrom(known, of, now) {
			return true
		}
		if scanned || s.scans == 0 {
			return false
		}
		s.scans--
		wide := known == nil || !known.truncated
		known = &candidates{row: rows[atPolicy]}
		if !wide {
			known.row = rows[level]
		}
		s.scan(known, policy, func(a *candidate) bool { return wide || of(a) })
		known.truncated = known.truncated || !wide
		s.evictable[policy] = known
	}
}

// evictFrom gives up the first of a list that is still what it was.
func (s *Shared) evictFrom(known *candidates, of func(*candidate) bool, now Mono) bool {
	for i := 0; i < len(known.list); {
		a := known.list[i]
		if !of(&a) {
			i++
			continue
		}
		known.list = slices.Delete(known.list, i, i+1)
		if s.evictEntry(&a, now) {
			return true
		}
	}
	return false
}

// giveUp frees a completed entry.
func (s *Shared) evictEntry(a *candidate, now Mono) bool {
	key := s.bucketKey(int(a.bucket))
	for range maxTries {
		b, cas, ok := s.read(key)
		if !ok {
			return false
		}
		var e entry
		b.each(func(w entry) bool {
			if w = current(w); w.readable() && w.fence() == a.fence && w.settled() == a.settled {
				e = w
			}
			return e == nil
		})
		if e == nil || table[e.state()].next[Evict] != Free {
			return false
		}
		id := e.id()
		s.buf, _ = appendOthers(appendHeader(s.buf[:0], b.epoch(), b.fence()), b, &id)
		done, err := s.table.Set(key, s.buf, cas)
		if err != nil {
			return false
		}
		if done {
			s.returnQuota(e.rows(), table[e.state()].counts, b.epoch())
			if !e.expired(now) {
				s.notice(Evicted, e)
				if s.onEvicted != nil {
					s.onEvicted(s.policies.names[e.policy()], time.Duration(now-e.settled()))
				}
			}
			return true
		}
	}
	return false
}

// scan gathers the oldest completed entries of a policy that are wanted.
func (s *Shared) scan(into *candidates, policy uint64, wanted func(*candidate) bool) {
	trim := func() {
		slices.SortFunc(into.list, func(a, b candidate) int {
			switch {
			case a.settled != b.settled:
				return int(max(min(a.settled-b.settled, 1), -1))
			case a.bucket != b.bucket:
				return int(a.bucket - b.bucket)
			}
			return int(max(min(int64(a.fence-b.fence), 1), -1))
		})
		if len(into.list) > candidatesKept {
			into.list, into.truncated = into.list[:candidatesKept], true
		}
	}
	for n := range s.layout.Buckets {
		b, _, ok := s.read(s.bucketKey(n))
		if !ok {
			continue
		}
		b.each(func(w entry) bool {
			w = current(w)
			if w.readable() && table[w.state()].next[Evict] == Free && w.policy() == policy {
				a := candidate{w.settled(), w.fence(), w.principal(), w.scope(), int32(n)}
				if wanted(&a) {
					into.list = append(into.list, a)
				}
			}
			return true
		})
		if len(into.list) >= 2*candidatesKept {
			trim()
		}
	}
	trim()
}
