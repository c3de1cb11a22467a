package shared

import (
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
)

// One worker at a time sweeps: it goes over all buckets again and again, a bounded
// step each tick, frees what has expired, ends what has lost its holder, and counts.
// Its count replaces that of the pages, which a crash may have left too high. A pass is a
// recount of quota (quota/recount.go): it opens every page, writes its epoch into every bucket while it counts it, and installs the
// result in every page.

// sweeperSilence is how long a sweeper may be silent before another follows it.
const sweeperSilence = ledger.Mono(3e9)

type sweep struct {
	me     uint64
	epoch  uint32 // of the pass under way; 0 = none
	phase  phase
	at     int
	blind  bool // a live entry could not be read: what was counted is too little
	count  count
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
	cursor record.Cursor
	ok     bool
}

// Tick implements ledger.Store.
func (s *Shared) Tick(now ledger.Mono) {
	s.scans, s.vain = scansPerTick, vainPerTick
	s.heartbeat(s.self.leaseTTL, now)
	s.reclaimLost()
	s.retry()
	s.quota.ReturnCached(false)
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
	s.listing = false
	s.seen, s.sweep.rings = s.seen[:0], s.sweep.rings[:0]
}

func (s *Shared) steps(now ledger.Mono) {
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

// follows decides whether this worker sweeps, and in which epoch. anybody says that somebody did before.
func (w *sweep) follows(was record.Sweeper, anybody bool, now ledger.Mono) (epoch uint32, ok bool) {
	under := w.epoch
	if anybody && was.Who != w.me {
		if now-was.Last < sweeperSilence && was.Last <= now+record.Foreseeable {
			return 0, false
		}
		under = 0
	}
	if under != 0 && under == was.Epoch {
		return under, true // the pass under way goes on
	}
	epoch = was.Epoch + 1
	return epoch, epoch != 0
}

// lead makes sure that this worker is the sweeper, and begins a pass where none is
// under way.
func (s *Shared) lead(now ledger.Mono) bool {
	w := &s.sweep
	key := s.prefix + "s"
	v, cas, st := s.table.Read(key, record.ValidSweeper)
	if !st.OK() {
		return false
	}
	var was record.Sweeper
	if st == record.Present {
		was = record.ReadSweeper(v)
	}
	epoch, ok := w.follows(was, st == record.Present, now)
	if ok {
		b := record.AppendSweeper(make([]byte, 0, record.SweeperSize), record.Sweeper{Epoch: epoch, Who: w.me, Last: now})
		var err error
		ok, err = s.table.Set(key, b, cas)
		ok = ok && err == nil
	}
	if !ok {
		w.epoch = 0
		return false
	}
	if w.epoch != epoch {
		*w = sweep{me: w.me, epoch: epoch, rings: w.rings, passes: w.passes}
	}
	return true
}

// step looks at one record. ok is false where the pass cannot go on.
func (s *Shared) step(now ledger.Mono) (ok bool) {
	w := &s.sweep
	size := s.layout.Pages
	switch w.phase {
	case opening:
		ok = s.quota.Begin(w.at, w.epoch)
	case visiting:
		ok, size = s.visit(w.at, now), s.layout.Buckets
	case installing:
		ok = s.quota.Install(w.at, w.epoch, &w.count.tally)
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

// visit cleans one bucket, marks it with the epoch, and counts it as it is then.
func (s *Shared) visit(n int, now ledger.Mono) bool {
	w := &s.sweep
	for range record.MaxTries {
		b := s.buckets.Read(n)
		switch b.Status {
		case record.Failed:
			return false
		case record.Foreign:
			// Of another format of ours it may hold what pages count; of nobody's, nothing.
			w.blind = w.blind || b.Bucket.Ours()
			return true
		}
		epoch := w.epoch
		if b.Epoch >= epoch {
			// A newer pass than this, or tampered with: clean it, count nothing.
			w.blind, epoch = true, b.Epoch
		}
		did := s.clean(b.Bucket, epoch, now)
		won, err := s.buckets.Swap(&b, did.bytes)
		if err != nil {
			return false
		}
		if won {
			s.cleanedNow(&did, b.Epoch)
			s.countBucket(did.bytes)
			return true
		}
	}
	return false
}
