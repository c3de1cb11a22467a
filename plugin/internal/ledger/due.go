package ledger

import (
	"slices"
	"strconv"
	"time"
)

// A refusal for want of room says when to come again. No record but the buckets knows when
// entries end, and the sweep reads them all: it writes down what it saw, beside each page,
// for the rows of that page. What is written is for advice only, and decides nothing.
//
//	due  magic 'c' 'd', format, 0
//	row  key u64 | the soonest end of an entry i64 | of a tombstone i64; 0 = none ends
const (
	dueFormat = 1
	dueHeader = 4
	dueRow    = 24
)

// dues are the soonest ends that a row has, 0 for none.
type dues struct{ entry, tomb Mono }

func sooner(a, b Mono) Mono {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// with takes an entry of a row into account. A call in flight does not end by time.
func (d dues) with(e entry) dues {
	st := e.state()
	if !table[st].timed {
		return d
	}
	at := max(e.expiresAt(), 1)
	d.entry = sooner(d.entry, at)
	if table[st].counts.tombs > 0 {
		d.tomb = sooner(d.tomb, at)
	}
	return d
}

// The bounds of what a refusal says.
const (
	leastRetry = time.Second
	mostRetry  = 24 * time.Hour
)

// passTime is how long after its end an entry may still count: until the sweep comes by,
// with a tick a second.
func (s *Shared) passTime() time.Duration {
	l := s.layout
	return time.Duration((l.Buckets+2*l.Pages+l.SweepSteps-1)/l.SweepSteps) * time.Second
}

// retryAfter says when a level that was full for a claim may have room again.
func (s *Shared) retryAfter(r *reservation, rows *levelRows, c *Claim, now Mono) time.Duration {
	if r.passing || r.evict && c.Limits.OnFullEvict && r.settled[r.level] > 0 {
		// A call that ends gives room, or the next tick lets something be given up.
		return leastRetry
	}
	d := s.due(rows[r.level])
	at := d.entry
	if r.tombs {
		at = d.tomb
	}
	wait := max(c.Terms.TTL, c.Terms.Window)
	if at != 0 {
		wait = time.Duration(max(at-now, 0))
	}
	// Where the last pass saw none that ends, all there are have come since.
	return min(max(wait+s.passTime(), leastRetry), mostRetry)
}

// retryBucket says when a full bucket has room: a claim frees what has ended by itself.
func retryBucket(b bucket, c *Claim, now Mono) time.Duration {
	var d dues
	b.each(func(w entry) bool {
		switch e := current(w); {
		case e.readable():
			d = d.with(e)
		default:
			d.entry = sooner(d.entry, max(e.expiresAt(), 1))
		}
		return true
	})
	wait := max(c.Terms.TTL, c.Terms.Window)
	if d.entry != 0 {
		wait = time.Duration(d.entry - now)
	}
	return min(max(wait, leastRetry), mostRetry)
}

func (s *Shared) dueKey(n int) string { return s.prefix + "d/" + strconv.Itoa(n) }

func validDue(b []byte) bool {
	return len(b) >= dueHeader && (len(b)-dueHeader)%dueRow == 0 && b[0] == 'c' && b[1] == 'd' && b[2] == dueFormat
}

// due gives what the last pass saw of a row.
func (s *Shared) due(row uint64) (d dues) {
	key := s.dueKey(s.pageOf(row))
	v, _, found, err := s.table.Get(key)
	if err != nil || !found {
		return d
	}
	if !validDue(v) {
		s.foreign(key)
		return d
	}
	for rows := v[dueHeader:]; len(rows) > 0; rows = rows[dueRow:] {
		if le.Uint64(rows) == row {
			return dues{Mono(le.Uint64(rows[8:])), Mono(le.Uint64(rows[16:]))}
		}
	}
	return d
}

// writeDues writes down what a pass saw of the rows of a page. A failure costs advice.
func (s *Shared) writeDues(n int) {
	key := s.dueKey(n)
	v, cas, found, err := s.table.Get(key)
	switch {
	case err != nil:
		return
	case found && !validDue(v):
		s.foreign(key)
		return
	case !found:
		cas = InsertIfAbsent
	}
	buf := append(s.pageBuf[:0], 'c', 'd', dueFormat, 0)
	s.sweep.tally.each(n, func(r *tallyRow) {
		if r.dues != (dues{}) {
			buf = le.AppendUint64(buf, r.key)
			buf = le.AppendUint64(buf, uint64(r.dues.entry))
			buf = le.AppendUint64(buf, uint64(r.dues.tomb))
		}
	})
	s.pageBuf = buf
	if found && !slices.Equal(v, buf) || !found && len(buf) > dueHeader {
		_, _ = s.table.Set(key, buf, cas)
	}
}
