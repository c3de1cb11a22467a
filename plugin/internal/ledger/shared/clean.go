package shared

import (
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/quota"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// cleaned is a bucket made anew, and what must be said of it once it is written.
type cleaned struct {
	bytes   []byte
	freed   []quota.Change // what the pages must be told
	dropped int
	notices []entryNotice
}

type entryNotice struct {
	what   ledger.Notice
	policy uint64
}

// clean makes a bucket anew without what has expired, with calls whose holder is gone
// as unknown outcomes, and with replies marked that have been shed.
func (s *Shared) clean(b record.Bucket, epoch uint32, now ledger.Mono) cleaned {
	did := cleaned{bytes: record.AppendHeader(s.buf[:0], epoch, b.Fence()), freed: s.freed[:0]}
	b.Each(func(w record.Entry) bool {
		e := record.Current(w)
		f := found(e, nil)
		switch {
		case f.Expired(now):
			did.dropped++
			if !f.Unreadable {
				did.free(e, state.Uses(f.State))
			}
		case f.State == ledger.InFlight && s.orphaned(e, now):
			lost, _ := state.Turn(f.State, ledger.LoseLease)
			did.free(e, lost.Return)
			did.notices = append(did.notices, entryNotice{ledger.Orphaned, e.Policy()})
			did.bytes = record.AppendTurned(did.bytes, e, turned(e, lost.Next, now, ledger.Why{Cause: ledger.HolderLost}), nil)
		case f.State == ledger.Completed && !f.Shed && s.wasShed(e.Slot()):
			did.notices = append(did.notices, entryNotice{ledger.Shed, e.Policy()})
			did.bytes = record.AppendShed(did.bytes, e)
		default:
			did.bytes = append(did.bytes, w...)
		}
		return true
	})
	s.buf, s.freed = did.bytes, did.freed
	return did
}

func (c *cleaned) free(e record.Entry, d state.Counts) {
	for _, row := range rowsOf(e) {
		c.freed = append(c.freed, quota.Change{Row: row, Delta: state.Counts{}.Minus(d)})
	}
}

// cleanedNow tells of a bucket of an epoch that has been written as cleaned.
func (s *Shared) cleanedNow(c *cleaned, epoch uint32) {
	s.quota.Post(c.freed, epoch)
	for _, n := range c.notices {
		s.tell(n.what, n.policy)
	}
}

// purge frees what has expired in a bucket, outside of a pass. ok is false where the table cannot be written.
func (s *Shared) purge(b *record.Reading, now ledger.Mono) (freed, ok bool) {
	did := s.clean(b.Bucket, b.Epoch, now)
	if did.dropped == 0 {
		return false, true
	}
	won, err := s.buckets.Swap(b, did.bytes)
	if err != nil {
		return false, false
	}
	if won {
		s.cleanedNow(&did, b.Epoch)
	}
	return true, true
}

// wasShed reports whether a reply has been overwritten, by the ring's cursor alone.
func (s *Shared) wasShed(p record.Slot) bool {
	if p.Length == 0 {
		return false
	}
	for i := range s.sweep.rings {
		if r := &s.sweep.rings[i]; r.ring == p.Ring {
			return r.ok && passed(r.cursor, p)
		}
	}
	c, _, ok := s.readRing(int(p.Ring))
	if s.sweeping {
		s.sweep.rings = append(s.sweep.rings, ringSeen{p.Ring, c, ok})
	}
	return ok && passed(c, p)
}

// count is what a pass has counted so far.
type count struct {
	tally  quota.Tally
	census []policyCensus
}

type policyCensus struct {
	policy uint64
	census ledger.Census
}

// countBucket counts a bucket as it was written.
func (s *Shared) countBucket(b record.Bucket) {
	w := &s.sweep
	b.Each(func(e record.Entry) bool {
		if e = record.Current(e); !e.Readable() {
			w.blind = true
			return true
		}
		rows := rowsOf(e)
		s.quota.Count(&w.count.tally, &rows, e.State(), e.ExpiresAt())
		c := w.count.of(e.Policy())
		c.States[e.State()]++
		if e.State() == ledger.Completed && e.Flags()&record.FlagShed == 0 {
			c.ReplyBytes += max(int(e.Slot().Length)-record.ReplyHeader, 0)
		}
		return true
	})
}

func (t *count) of(policy uint64) *ledger.Census {
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
	if s.env.Census == nil {
		return
	}
	for _, policy := range s.env.Policies {
		s.env.Census(policy, *s.sweep.count.of(policy))
	}
}
