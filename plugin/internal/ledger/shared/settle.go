package shared

import (
	"slices"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// pendingSettle is a settlement that the table has not taken yet.
type pendingSettle struct {
	lease  ledger.Lease
	event  ledger.Event
	why    ledger.Why
	stored record.Stored
	asked  bool // by Settle; else the ledger saw the event itself
	trying bool
	faults int // tries that ended in a fault of our own
}

// faultsBorne is how often a settlement may fail by a fault of our own. After that this
// worker stops to be the holder that it was, so that the others end what it cannot.
const faultsBorne = 3

// Settle implements ledger.Store.
func (s *Shared) Settle(h ledger.Lease, o ledger.Outcome) ledger.Settled {
	if o.Event >= ledger.NumHolderEvents {
		return ledger.Fenced
	}
	s.open.stage(&h, settling)
	var k record.Stored
	var unkept ledger.Settled
	if o.Event == ledger.Complete {
		// The reply first, the entry after it: whoever reads "completed" finds the reply.
		var ok bool
		if k.At, ok = s.storeReply(&h, &o.Reply); !ok {
			o.Event, k, unkept = ledger.MarkNotReplayable, record.Stored{}, ledger.Unkept
		} else if o.Reply.Task {
			k.Flags = record.FlagTask
		}
	}
	done := s.apply(&h, o.Event, o.Why, k)
	s.open.remove(&h.ID, h.Fence)
	switch done {
	case ledger.Pending:
		s.pending = append(s.pending, pendingSettle{lease: h, event: o.Event, why: o.Why, stored: k, asked: true})
	case ledger.Fenced:
		s.tell(ledger.LateFenced, h.Policy)
		return done
	}
	return done | unkept
}

// apply lets an event of a lease happen in its bucket: read, decide, reserve, swap, return.
func (s *Shared) apply(h *ledger.Lease, ev ledger.Event, why ledger.Why, k record.Stored) ledger.Settled {
	for range record.MaxTries {
		b := s.buckets.Lookup(&h.ID)
		if !b.OK() {
			return ledger.Pending
		}
		now, e := s.env.Now(), b.Entry
		f := found(e, nil)
		to, ok := state.Settle(&f, h, ev)
		if !ok {
			return ledger.Fenced
		}
		rows := rowsOf(e)
		if to.Reserve != (state.Counts{}) {
			switch r := s.quota.Reserve(&rows, to.Reserve, &h.Limits, b.Epoch); {
			case r.Stale:
				continue
			case r.Failed:
				return ledger.Pending
			case !r.Got:
				to = state.WithoutRoom(f.State)
			}
		}
		if to.Next == ledger.Free {
			s.buf = record.AppendWithout(s.buf[:0], b.Bucket, &h.ID)
		} else {
			s.buf = record.AppendSettled(s.buf[:0], b.Bucket, e, turned(e, to.Next, now, why), &k)
		}
		done, err := s.buckets.Swap(&b, s.buf)
		switch {
		case err != nil:
			return ledger.Pending
		case done:
			s.quota.Return(&rows, to.Return, &h.Limits, b.Epoch)
			return ledger.Applied
		}
		s.quota.Return(&rows, to.Reserve, nil, b.Epoch)
	}
	return ledger.Pending
}

// retry tries again what the table would not take.
func (s *Shared) retry() {
	stays, i := 0, 0
	// After a fault too: what has not been tried, and what faulted, stays.
	defer func() {
		if stays < i {
			s.pending = slices.Delete(s.pending, stays, i)
		}
	}()
	for ; i < len(s.pending); i++ {
		p := &s.pending[i]
		if p.trying {
			if p.faults++; p.faults == faultsBorne {
				s.self = self{}
				continue
			}
		}
		p.trying = true
		done := s.apply(&p.lease, p.event, p.why, p.stored)
		p.trying = false
		switch {
		case done == ledger.Pending:
			s.pending[stays] = *p
			stays++
		case done == ledger.Applied && p.event == ledger.LoseLease:
			s.tell(ledger.Orphaned, p.lease.Policy)
		case done == ledger.Applied && p.asked && s.env.Late != nil && !p.lease.Root:
			s.env.Late(p.lease.Policy, p.event)
		case done == ledger.Fenced && p.asked:
			s.tell(ledger.LateFenced, p.lease.Policy)
		}
	}
}
