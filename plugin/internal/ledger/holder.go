package ledger

import "strconv"

// A holder is one worker's store since it last came to life: a VM that is reloaded,
// or one that was silent so long that its place was taken, is another holder.
//
//	holder  magic 'c' 'h', format, 0 | incarnation u64 | last sign i64 | lease i64
//
// The low bits of an incarnation name its place, the others are random. lease is the
// longest that the holder ever claimed with: its place is free after twice that
// silence, when every one of its entries has lost its lease too.
const (
	holderFormat   = 1
	holderSize     = 28
	workerSlotBits = 12
)

type holderRecord []byte

func (h holderRecord) valid() bool {
	return len(h) == holderSize && h[0] == 'c' && h[1] == 'h' && h[2] == holderFormat &&
		h.leaseTTL() > 0 && h.leaseTTL() <= unreadable
}

func (h holderRecord) incarnation() uint64 { return le.Uint64(h[4:]) }
func (h holderRecord) last() Mono          { return Mono(le.Uint64(h[12:])) }
func (h holderRecord) leaseTTL() Mono      { return Mono(le.Uint64(h[20:])) }

func appendHolder(dst []byte, incarnation uint64, last, lease Mono) []byte {
	dst = append(dst, 'c', 'h', holderFormat, 0)
	dst = le.AppendUint64(dst, incarnation)
	dst = le.AppendUint64(dst, uint64(last))
	return le.AppendUint64(dst, uint64(lease))
}

// self is this worker as a holder. The zero value holds no place.
type self struct {
	incarnation uint64 // 0 = no place
	beat        Mono   // last sign of life
	leaseTTL    Mono   // as last signed
	lastSlot    int    // the place that it had last
}

func (s *Shared) holderKey(slot int) string { return s.prefix + "h/" + strconv.Itoa(slot) }

func workerSlotOf(incarnation uint64) int { return int(incarnation & (1<<workerSlotBits - 1)) }

// renew makes sure that the others see this worker alive for as long as a claim made
// now needs it. ok is false where the table does not let it.
func (s *Shared) renew(lease, now Mono) bool {
	if s.self.incarnation != 0 && lease <= s.self.leaseTTL && now-s.self.beat < lease/2 {
		return true
	}
	s.heartbeat(max(lease, s.self.leaseTTL), now)
	if s.self.incarnation == 0 {
		s.register(lease, now)
	}
	return s.self.incarnation != 0 && s.self.leaseTTL >= lease
}

// heartbeat gives a sign of life. A worker that finds its place taken was silent too long:
// what it held is lost, and it goes on as another holder.
func (s *Shared) heartbeat(lease, now Mono) {
	if s.self.incarnation == 0 {
		return
	}
	key := s.holderKey(workerSlotOf(s.self.incarnation))
	v, cas, found, err := s.table.Get(key)
	if err != nil {
		return
	}
	if !found || !holderRecord(v).valid() || holderRecord(v).incarnation() != s.self.incarnation {
		s.self = self{}
		return
	}
	if done, err := s.table.Set(key, appendHolder(nil, s.self.incarnation, now, lease), cas); err != nil {
		return
	} else if !done {
		s.self = self{}
		return
	}
	s.self.beat, s.self.leaseTTL = now, lease
}

// deregister gives the place of a worker that holds nothing back. Each configuration that
// still drains is a holder of its own: if all kept their places while idle, a
// hundred changes on a few workers would leave none.
func (s *Shared) deregister() {
	if s.self.incarnation == 0 {
		return
	}
	key := s.holderKey(workerSlotOf(s.self.incarnation))
	v, cas, found, err := s.table.Get(key)
	if err != nil {
		return
	}
	if found && holderRecord(v).valid() && holderRecord(v).incarnation() == s.self.incarnation {
		if _, err := s.table.Set(key, appendHolder(nil, s.self.incarnation, never, s.self.leaseTTL), cas); err != nil {
			return
		}
	}
	s.self = self{lastSlot: workerSlotOf(s.self.incarnation)}
}

// register takes a place, its last one if that is free. Where all are taken the worker claims nothing, and tries again
// at its next claim.
func (s *Shared) register(lease, now Mono) {
	for i := range s.layout.Holders {
		slot := (s.self.lastSlot + i) % s.layout.Holders
		v, cas, found, err := s.table.Get(s.holderKey(slot))
		if err != nil {
			return
		}
		if !found {
			cas = InsertIfAbsent
		} else if h := holderRecord(v); !h.valid() || now-h.last() < 2*h.leaseTTL() {
			continue
		}
		var b [8]byte
		s.random(b[:])
		incarnation := le.Uint64(b[:])<<workerSlotBits | uint64(slot)
		if incarnation>>workerSlotBits == 0 {
			incarnation |= 1 << workerSlotBits
		}
		done, err := s.table.Set(s.holderKey(slot), appendHolder(nil, incarnation, now, lease), cas)
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
		s.log("no place for another worker: its calls are refused until one that is gone has been silent for long enough")
	}
}

// orphaned reports whether a call in flight has lost its holder. A table that cannot
// tell leaves it in flight.
func (s *Shared) orphaned(e entry, now Mono) bool {
	if e.holder() == s.self.incarnation {
		h, f := e.id(), e.fence()
		return !s.ownsLease(&h, f)
	}
	if !silent(e.claimed(), e.claimed(), now, e.leaseTTL()) {
		return false
	}
	last, ok := s.lastHeartbeat(e.holder(), now)
	return ok && silent(e.claimed(), last, now, e.leaseTTL())
}

// never is the last sign of a holder that is gone.
const never = Mono(-1 << 62)

// lastHeartbeat gives when a holder last showed that it lives. A sign from the future is
// nobody's.
func (s *Shared) lastHeartbeat(incarnation uint64, now Mono) (Mono, bool) {
	slot := workerSlotOf(incarnation)
	if slot >= s.layout.Holders {
		return never, true
	}
	for i := range s.seen {
		if s.seen[i].incarnation == incarnation {
			return s.seen[i].beat, true
		}
	}
	v, _, found, err := s.table.Get(s.holderKey(slot))
	if err != nil {
		return 0, false
	}
	h, last := holderRecord(v), never
	if found && h.valid() && h.incarnation() == incarnation && h.last() <= now+unreadable {
		last = h.last()
	}
	if s.sweeping {
		s.seen = append(s.seen, self{incarnation: incarnation, beat: last})
	}
	return last, true
}
