package ledger

// cleaned is what was done to a bucket, to be told once it is written.
type cleaned struct {
	dropped int
	notices []entryNotice
}

type entryNotice struct {
	what  Notice
	entry entry
}

func (c *cleaned) tell(s *Shared) {
	for _, n := range c.notices {
		s.notice(n.what, n.entry)
	}
}

// clean makes a bucket anew without what has expired, with calls whose holder is gone
// as unknown outcomes, and with replies marked that have been shed. s.freed is what the
// pages must be told afterwards.
func (s *Shared) clean(b bucket, epoch uint32, now Mono) ([]byte, cleaned) {
	var did cleaned
	s.freed = s.freed[:0]
	buf := appendHeader(s.buf[:0], epoch, b.fence())
	b.each(func(w entry) bool {
		e := current(w)
		switch {
		case e.expired(now):
			did.dropped++
			if e.readable() {
				s.free(e, table[e.state()].counts)
			}
		case !e.readable():
			buf = append(buf, w...)
		case e.state() == InFlight && s.orphaned(e, now):
			next := table[InFlight].next[LoseLease]
			s.free(e, table[InFlight].counts.minus(table[next].counts))
			did.notices = append(did.notices, entryNotice{Orphaned, e})
			at := len(buf)
			buf = append(buf, e...)
			entry(buf[at:]).turn(next, now)
		case e.state() == Completed && e.flags()&flagShed == 0 && s.wasShed(e.slot()):
			did.notices = append(did.notices, entryNotice{Shed, e})
			at := len(buf)
			buf = append(buf, e...)
			buf[at+offFlags] |= flagShed
		default:
			buf = append(buf, w...)
		}
		return true
	})
	return buf, did
}

func (s *Shared) free(e entry, d counts) {
	for _, row := range e.rows() {
		s.freed = append(s.freed, change{row, counts{}.minus(d)})
	}
}

// wasShed reports whether a reply has been overwritten, by the ring's cursor alone.
func (s *Shared) wasShed(p slot) bool {
	if p.length == 0 {
		return false
	}
	for i := range s.sweep.rings {
		if r := &s.sweep.rings[i]; r.ring == p.ring {
			return r.ok && r.cursor.passed(p)
		}
	}
	c, _, ok := s.readRing(int(p.ring))
	if s.sweeping {
		s.sweep.rings = append(s.sweep.rings, ringSeen{p.ring, c, ok})
	}
	return ok && c.passed(p)
}

// tally is the count of a pass.
type tally struct {
	at     map[uint64]int32
	rows   []tallyRow
	heads  []int32 // by page: the first of its rows, plus one
	census []policyCensus
}

type tallyRow struct {
	key    uint64
	counts counts
	dues   dues
	next   int32 // of the same page, plus one
	seen   bool
}

type policyCensus struct {
	policy uint64
	census Census
}

func (t *tally) add(page, pages int, key uint64, e entry) {
	if t.at == nil {
		t.at, t.heads = map[uint64]int32{}, make([]int32, pages)
	}
	i, ok := t.at[key]
	if !ok {
		i = int32(len(t.rows))
		t.rows = append(t.rows, tallyRow{key: key, next: t.heads[page]})
		t.at[key], t.heads[page] = i, i+1
	}
	t.rows[i].counts = t.rows[i].counts.plus(table[e.state()].counts)
	t.rows[i].dues = t.rows[i].dues.with(e)
}

// take gives what was counted for a row, and marks it seen.
func (t *tally) take(key uint64) counts {
	i, ok := t.at[key]
	if !ok {
		return counts{}
	}
	t.rows[i].seen = true
	return t.rows[i].counts
}

func (t *tally) each(page int, f func(*tallyRow)) {
	if t.heads == nil {
		return
	}
	for i := t.heads[page]; i > 0; i = t.rows[i-1].next {
		f(&t.rows[i-1])
	}
}

// tallyBucket counts a bucket as it was written.
func (s *Shared) tallyBucket(b bucket, now Mono) {
	w := &s.sweep
	b.each(func(e entry) bool {
		if e = current(e); !e.readable() {
			w.blind = true
			return true
		}
		for _, row := range e.rows() {
			w.tally.add(s.pageOf(row), s.layout.Pages, row, e)
		}
		c := w.tally.of(e.policy())
		c.States[e.state()]++
		if e.state() == Completed && e.flags()&flagShed == 0 {
			c.ReplyBytes += max(int(e.slot().length)-replyHeader, 0)
		}
		return true
	})
}

func (t *tally) of(policy uint64) *Census {
	for i := range t.census {
		if t.census[i].policy == policy {
			return &t.census[i].census
		}
	}
	t.census = append(t.census, policyCensus{policy: policy})
	return &t.census[len(t.census)-1].census
}

// tellCensus reports a finished pass, policies without an entry too.
func (s *Shared) tellCensus() {
	if s.census == nil {
		return
	}
	for digest, name := range s.policies.names {
		s.census(name, *s.sweep.tally.of(digest))
	}
}
