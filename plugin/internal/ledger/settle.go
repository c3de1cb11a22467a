package ledger

import "slices"

// stored is where a reply was kept, and what the entry must say of it.
type storedReply struct {
	at    slot
	flags byte
}

// pendingSettle is a settlement that the table has not taken yet.
type pendingSettle struct {
	lease  Lease
	event  Event
	stored storedReply
	word   bool // the stream's own word, by Settle
	trying bool
	faults int // tries that ended in a fault of our own
}

// faultsBorne is how often a settlement may fail by a fault of our own. After that this
// worker stops to be the holder that it was, so that the others end what it cannot.
const faultsBorne = 3

// Settle implements Store.
func (s *Shared) Settle(h Lease, o Outcome) Settled {
	if o.Event >= leaseEvents {
		return Fenced
	}
	s.open.stage(&h, settling)
	var k storedReply
	if o.Event == Complete {
		// The reply first, the entry after it: whoever reads "completed" finds the reply.
		var ok bool
		if k.at, ok = s.storeReply(&h, &o.Reply); !ok {
			o.Event, k = MarkNotReplayable, storedReply{}
		} else if o.Reply.Task {
			k.flags = flagTask
		}
	}
	done := s.apply(&h, o.Event, k)
	s.open.remove(&h.ID, h.Fence)
	switch done {
	case Pending:
		s.pending = append(s.pending, pendingSettle{lease: h, event: o.Event, stored: k, word: true})
	case Fenced:
		s.tell(LateFenced, h.Policy)
	}
	return done
}

// apply lets an event of a hold happen in its bucket.
func (s *Shared) apply(h *Lease, ev Event, k storedReply) Settled {
	key := s.bucketKey(s.bucketOf(&h.ID))
	for range maxTries {
		b, cas, ok := s.read(key)
		if !ok {
			return Pending
		}
		now := s.now()
		e, found := b.find(&h.ID)
		next, may := settle(e, found, h, ev)
		if !may {
			return Fenced
		}
		before, after := table[e.state()].counts, table[next].counts
		rows := e.rows()
		more := after.tombs > before.tombs
		if more {
			// A settled answer turned out worse. Without room for a tombstone it stays
			// what it is, but its reply is struck out: it never runs again either way.
			switch r := s.reserve(&rows, counts{tombs: 1}, &h.Limits, b.epoch()); {
			case r.stale:
				continue
			case r.failed:
				return Pending
			case !r.got:
				next, after, more = e.state(), before, false
			}
		}
		buf, _ := appendOthers(appendHeader(s.buf[:0], b.epoch(), b.fence()), b, &h.ID)
		if next != Free {
			at := len(buf)
			buf = append(buf, e...)
			w := entry(buf[at:])
			w.turn(next, now)
			w.setSlot(k.at)
			w[offFlags] = k.flags
		}
		s.buf = buf
		done, err := s.table.Set(key, s.buf, cas)
		switch {
		case err != nil:
			return Pending
		case done:
			if more {
				return Applied
			}
			s.release(rows, before.minus(after), &h.Limits, b.epoch())
			return Applied
		case more:
			s.undo(&rows, levels, counts{tombs: 1}, b.epoch())
		}
	}
	return Pending
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
		done := s.apply(&p.lease, p.event, p.stored)
		p.trying = false
		switch {
		case done == Pending:
			s.pending[stays] = *p
			stays++
		case done == Applied && p.event == LoseLease:
			s.tell(Orphaned, p.lease.Policy)
		case done == Applied && p.word && s.late != nil:
			s.late(p.lease.Policy, p.event)
		case done == Fenced && p.word:
			s.tell(LateFenced, p.lease.Policy)
		}
	}
}
