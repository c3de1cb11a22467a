package shared

import (
	"strconv"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// A holder is one worker's store since it last registered: a VM that is reloaded,
// or one that was silent so long that its worker slot was taken, is another holder. Its
// slot is free after twice the silence of the longest lease that it ever claimed with, when
// every one of its entries has lost its lease too.

// self is this worker as a holder. The zero value is one that is not registered.
type self struct {
	incarnation uint64      // 0 = not registered
	beat        ledger.Mono // last heartbeat
	leaseTTL    ledger.Mono // as the slot has it
	lastSlot    int         // that it was registered in last
}

func (s *Shared) workerKey(slot int) string { return s.prefix + "h/" + strconv.Itoa(slot) }

// renew makes sure that the others see this worker alive for as long as a claim made
// now needs it. ok is false where the table does not let it.
func (s *Shared) renew(lease, now ledger.Mono) bool {
	if s.self.incarnation != 0 && lease <= s.self.leaseTTL && now-s.self.beat < lease/2 {
		return true
	}
	s.heartbeat(max(lease, s.self.leaseTTL), now)
	if s.self.incarnation == 0 {
		s.register(lease, now)
	}
	return s.self.incarnation != 0 && s.self.leaseTTL >= lease
}

// ownSlot reads the slot that this worker is registered in. ok is false where the table cannot tell; mine, where another worker has it.
func (s *Shared) ownSlot() (key string, cas uint32, mine, ok bool) {
	key = s.workerKey(record.WorkerSlotOf(s.self.incarnation))
	v, cas, found, err := s.table.Get(key)
	h := record.WorkerSlot(v)
	return key, cas, found && h.Valid() && h.Incarnation() == s.self.incarnation, err == nil
}

// writeOwnSlot writes a heartbeat into this worker's slot if it is still its own. ok is false where the table does not say. A write that is
// refused proves nothing by itself: all leases hang on the slot, so it counts as taken only when another's incarnation is read there.
func (s *Shared) writeOwnSlot(beat, lease ledger.Mono) (mine, ok bool) {
	for range record.MaxTries {
		key, cas, mine, ok := s.ownSlot()
		if !ok || !mine {
			return false, ok
		}
		if done, err := s.table.Set(key, record.AppendWorkerSlot(nil, s.self.incarnation, beat, lease), cas); done || err != nil {
			return done, err == nil
		}
	}
	return false, false
}

// heartbeat shows that this worker lives. One that finds its slot taken was silent too long:
// its leases are lost, and it goes on as another holder.
func (s *Shared) heartbeat(lease, now ledger.Mono) {
	if s.self.incarnation == 0 {
		return
	}
	switch mine, ok := s.writeOwnSlot(now, lease); {
	case !ok:
	case !mine:
		s.self = self{}
	default:
		s.self.beat, s.self.leaseTTL = now, lease
	}
}

// deregister frees the slot of a worker that has no lease. Each configuration that
// still drains is a holder of its own: if all kept their slots while idle, a
// hundred changes on a few workers would leave none.
func (s *Shared) deregister() {
	if s.self.incarnation == 0 {
		return
	}
	if _, ok := s.writeOwnSlot(never, s.self.leaseTTL); ok {
		s.self = self{lastSlot: record.WorkerSlotOf(s.self.incarnation)}
	}
}

// register takes a slot, its last one if that is free. Where all are taken the worker claims nothing, and tries again
// at its next claim.
func (s *Shared) register(lease, now ledger.Mono) {
	for i := range s.layout.Holders {
		slot := (s.self.lastSlot + i) % s.layout.Holders
		key := s.workerKey(slot)
		v, cas, found, err := s.table.Get(key)
		if err != nil {
			return
		}
		if !found {
			cas = ledger.InsertIfAbsent
		} else if h := record.WorkerSlot(v); !h.Valid() || now-h.Heartbeat() < 2*h.LeaseTTL() {
			continue
		}
		var b [8]byte
		s.env.Random(b[:])
		incarnation := record.Incarnation(&b, slot)
		done, err := s.table.Set(key, record.AppendWorkerSlot(nil, incarnation, now, lease), cas)
		if err != nil {
			return
		}
		if done {
			s.self = self{incarnation, now, lease, slot}
			return
		}
	}
	if !s.warned["h"] {
		s.warned["h"] = true
		s.env.Log("no place for another worker: its calls are refused until one that is gone has been silent for long enough")
	}
}

// orphaned reports whether a call in flight has lost its holder. A table that cannot
// tell leaves it in flight.
func (s *Shared) orphaned(e record.Entry, now ledger.Mono) bool {
	if e.Holder() == s.self.incarnation {
		h, f := e.ID(), e.Fence()
		return !s.ownsLease(&h, f)
	}
	if !state.Silent(e.Claimed(), e.Claimed(), now, e.LeaseTTL()) {
		return false
	}
	last, ok := s.lastHeartbeat(e.Holder(), now)
	return ok && state.Silent(e.Claimed(), last, now, e.LeaseTTL())
}

// never is the last heartbeat of a holder that is gone.
const never = ledger.Mono(-1 << 62)

// lastHeartbeat gives when a holder last showed that it lives. One from the future is
// nobody's.
func (s *Shared) lastHeartbeat(incarnation uint64, now ledger.Mono) (ledger.Mono, bool) {
	slot := record.WorkerSlotOf(incarnation)
	if slot >= s.layout.Holders {
		return never, true
	}
	for i := range s.seen {
		if s.seen[i].incarnation == incarnation {
			return s.seen[i].beat, true
		}
	}
	v, _, found, err := s.table.Get(s.workerKey(slot))
	if err != nil {
		return 0, false
	}
	h, last := record.WorkerSlot(v), never
	if found && h.Valid() && h.Incarnation() == incarnation && h.Heartbeat() <= now+record.Foreseeable {
		last = h.Heartbeat()
	}
	if s.sweeping || s.listing {
		s.seen = append(s.seen, self{incarnation: incarnation, beat: last})
	}
	return last, true
}
