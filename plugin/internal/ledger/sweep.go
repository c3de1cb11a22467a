package ledger

// One worker at a time sweeps: it goes over all buckets again and again, a bounded
// step each tick, frees what has expired, ends what has lost its holder, and counts.
// Its count replaces that of the pages, which a crash may have left too high.
//
//	sweeper  magic 'c' 'w', format, 0 | epoch u32 | sweeper u64 | last step i64
//
// A pass has an epoch, never used twice. It opens every page (from then on their
// shadows gather), writes the epoch into every bucket while it counts it, and then
// installs count and shadow in every page. See page.post for how a change finds out
// whether the count already knows of it.
const (
	sweeperFormat = 1
	sweeperSize   = 24
	// sweeperSilence is how long a sweeper may be silent before another goes on.
	sweeperSilence = Mono(3e9)
)

type sweep struct {
	me     uint64
	epoch  uint32 // of the pass under way; 0 = none
	phase  phase
	at     int
	blind  bool // a live entry could not be read: what was counted is too little
	tally  tally
	rings  []ringSeen
	passes int
}

type phase uint8

const (
	opening phase = iota
	visiting
	installing
)

type ringSeen struct {
	ring   uint32
	cursor cursor
	ok     bool
}

// Tick implements Store.
func (s *Shared) Tick(now Mono) {
	s.scans = scansPerTick
	s.heartbeat(s.self.leaseTTL, now)
	s.reclaimLost()
	s.retry()
	s.returnCached(false)
	if len(s.open.list) == 0 && len(s.pending) == 0 {
		s.deregister()
	}
	if s.lead(now) {
		s.sweeping = true
		defer s.rest()
		s.steps(now)
		s.sweeping = false
	}
}

// rest forgets what was read for one step only. A fault that ended the step half way
// ends the pass: what it knows cannot be trusted.
func (s *Shared) rest() {
	if s.sweeping {
		s.sweeping, s.sweep.epoch = false, 0
	}
	s.seen, s.sweep.rings = s.seen[:0], s.sweep.rings[:0]
}

func (s *Shared) steps(now Mono) {
	for range s.layout.SweepSteps {
		if !s.step(now) {
			s.sweep.epoch = 0
			return
		}
		if s.sweep.epoch == 0 {
			return
		}
	}
}

// lead makes sure that this worker is the sweeper, and begins a pass where none is
// under way.
func (s *Shared) lead(now Mono) bool {
	w := &s.sweep
	key := s.prefix + "s"
	v, cas, found, err := s.table.Get(key)
	if err != nil {
		return false
	}
	epoch := uint32(0)
	if !found {
		cas = InsertIfAbsent
	} else {
		if len(v) != sweeperSize || v[0] != 'c' || v[1] != 'w' || v[2] != sweeperFormat {
			s.foreign(key)
			return false
		}
		epoch = le.Uint32(v[4:])
		last := Mono(le.Uint64(v[16:]))
		if mine := le.Uint64(v[8:]) == w.me; !mine {
			w.epoch = 0
			if now-last < sweeperSilence && last <= now+unreadable {
				return false
			}
		}
	}
	if w.epoch == 0 || w.epoch != epoch {
		if epoch++; epoch == 0 {
			return false
		}
	}
	b := append(make([]byte, 0, sweeperSize), 'c', 'w', sweeperFormat, 0)
	b = le.AppendUint32(b, epoch)
	b = le.AppendUint64(b, w.me)
	b = le.AppendUint64(b, uint64(now))
	if done, err := s.table.Set(key, b, cas); err != nil || !done {
		w.epoch = 0
		return false
	}
	if w.epoch != epoch {
		*w = sweep{me: w.me, epoch: epoch, rings: w.rings, passes: w.passes}
	}
	return true
}

// step looks at one record. ok is false where the pass cannot go on.
func (s *Shared) step(now Mono) (ok bool) {
	w := &s.sweep
	size := s.layout.Pages
	switch w.phase {
	case opening:
		ok = s.openPage(w.at)
	case visiting:
		ok, size = s.visit(w.at, now), s.layout.Buckets
	case installing:
		if ok = s.install(w.at); ok {
			s.writeDues(w.at)
		}
	}
	if w.at++; !ok || w.at < size {
		return ok
	}
	w.at = 0
	if w.phase++; w.phase == installing && !w.blind {
		return true
	}
	if w.phase >= installing {
		w.epoch = 0
		w.passes++
		s.tellCensus()
	}
	return true
}

// openPage begins the recount in one page.
func (s *Shared) openPage(n int) bool {
	return s.rewrite(n, func(p page) ([]byte, bool) {
		if p.open() >= s.sweep.epoch {
			return nil, false
		}
		buf := appendPageHeader(s.pageBuf[:0], s.sweep.epoch, p.installed())
		for rows := p.rows(); len(rows) > 0; rows = rows[pageRow:] {
			buf = appendRow(buf, le.Uint64(rows), countsAt(rows[offMain:]), counts{})
		}
		return buf, true
	})
}

// install ends the recount in one page: what was counted, and what came after it.
func (s *Shared) install(n int) bool {
	return s.rewrite(n, func(p page) ([]byte, bool) {
		if p.open() != s.sweep.epoch || p.installed() >= s.sweep.epoch {
			return nil, false
		}
		t := &s.sweep.tally
		t.each(n, func(r *tallyRow) { r.seen = false })
		buf := appendPageHeader(s.pageBuf[:0], s.sweep.epoch, s.sweep.epoch)
		for rows := p.rows(); len(rows) > 0; rows = rows[pageRow:] {
			key := le.Uint64(rows)
			buf = appendRow(buf, key, t.take(key).plus(countsAt(rows[offShadow:])), counts{})
		}
		t.each(n, func(r *tallyRow) {
			if !r.seen {
				buf = appendRow(buf, r.key, r.counts, counts{})
			}
		})
		return buf, true
	})
}

// rewrite swaps a page for what f makes of it. A foreign page is passed over: claims
// that need it are refused anyway.
func (s *Shared) rewrite(n int, f func(page) ([]byte, bool)) bool {
	for range maxTries {
		v, cas, found, err := s.table.Get(s.pageKey(n))
		if err != nil {
			return false
		}
		if !found {
			cas = InsertIfAbsent
		} else if len(v) == 0 || !page(v).valid() {
			s.foreign(s.pageKey(n))
			return true
		}
		buf, ok := f(v)
		if !ok {
			return false
		}
		s.pageBuf = buf
		done, err := s.table.Set(s.pageKey(n), buf, cas)
		if err != nil {
			return false
		}
		if done {
			return true
		}
	}
	return false
}

// visit cleans one bucket, marks it with the epoch, and counts it as it is then.
func (s *Shared) visit(n int, now Mono) bool {
	w, key := &s.sweep, s.bucketKey(n)
	for range maxTries {
		v, cas, found, err := s.table.Get(key)
		if err != nil {
			return false
		}
		b := bucket(v)
		if !found {
			cas = InsertIfAbsent
		} else if len(b) == 0 || !b.valid() {
			s.foreign(key)
			// Of another format of ours it may hold what pages count; of nobody's, nothing.
			w.blind = w.blind || len(b) > 1 && b[0] == 'c' && b[1] == 'o'
			return true
		}
		epoch := w.epoch
		if b.epoch() >= epoch {
			// A newer pass than this, or tampered with: clean it, count nothing.
			w.blind, epoch = true, b.epoch()
		}
		buf, done := s.clean(b, epoch, now)
		s.buf = buf
		won, err := s.table.Set(key, buf, cas)
		if err != nil {
			return false
		}
		if won {
			s.post(s.freed, b.epoch())
			done.tell(s)
			s.tallyBucket(buf, now)
			return true
		}
	}
	return false
}

// purge frees what has expired in a bucket, outside of a pass.
func (s *Shared) purge(key string, b bucket, cas, epoch uint32, now Mono) (freed, ok bool) {
	buf, done := s.clean(b, epoch, now)
	s.buf = buf
	if done.dropped == 0 {
		return false, true
	}
	won, err := s.table.Set(key, buf, cas)
	if err != nil {
		return false, false
	}
	if won {
		s.post(s.freed, b.epoch())
		done.tell(s)
	}
	return true, true
}
