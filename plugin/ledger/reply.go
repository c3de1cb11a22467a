package ledger

import "strconv"

// Replies lie in rings of fixed pieces, one ring for each policy. A cursor goes
// round; a reply takes whole pieces and overwrites the oldest, so that shedding by
// age costs nothing and the bytes of a ring are bounded. Each reply carries its
// entry's id and fence: a place that was taken over says so itself.
//
//	reply  magic 'c' 'r', format, flags | id 32 | fence u64 | status u16 | id start u32,
//	       id end u32 | message
const (
	replyFormat = 1
	replyHeader = 54
	flagTask    = 1
)

// place is where a reply lies.
type place struct{ ring, at, length uint32 }

// AppendTo appends the reply's record.
func (r *Reply) appendTo(dst []byte, id *[32]byte, fence uint64) []byte {
	flags := byte(0)
	if r.Task {
		flags |= flagTask
	}
	dst = append(dst, 'c', 'r', replyFormat, flags)
	dst = append(dst, id[:]...)
	dst = le.AppendUint64(dst, fence)
	dst = le.AppendUint16(dst, uint16(r.Status))
	dst = le.AppendUint32(dst, uint32(r.IDStart))
	dst = le.AppendUint32(dst, uint32(r.IDEnd))
	return append(dst, r.Message...)
}

// readReply reads a record back. ok is false unless it is whole and the reply of
// this very id and fence.
func readReply(b []byte, id *[32]byte, fence uint64, length uint32) (r Reply, ok bool) {
	if len(b) < replyHeader || b[0] != 'c' || b[1] != 'r' || b[2] != replyFormat || uint32(len(b)) != length ||
		[32]byte(b[4:]) != *id || le.Uint64(b[36:]) != fence {
		return Reply{}, false
	}
	r = Reply{
		Status:  int(le.Uint16(b[44:])),
		IDStart: int(le.Uint32(b[46:])),
		IDEnd:   int(le.Uint32(b[50:])),
		Task:    b[3]&flagTask != 0,
		Message: b[replyHeader:],
	}
	if r.IDStart >= r.IDEnd || r.IDEnd > len(r.Message) {
		return Reply{}, false
	}
	return r, true
}

// keep writes a reply into its ring and says where. ok is false when it does not
// fit the ring or the store would not take it.
func (s *Shared) keep(h *Hold, r *Reply) (place, bool) {
	s.buf = r.appendTo(s.buf[:0], &h.ID, h.Fence)
	pieces := max(h.Budget.Bytes/s.layout.PieceBytes, 1)
	need := (len(s.buf) + s.layout.PieceBytes - 1) / s.layout.PieceBytes
	if need > pieces {
		return place{}, false
	}
	at, ok := s.turn(h.Budget.Ring, pieces, need)
	if !ok {
		return place{}, false
	}
	if done, err := s.table.Set(s.replyKey(h.Budget.Ring, at), s.buf, 0); err != nil || !done {
		return place{}, false
	}
	for i := 1; i < need; i++ {
		// The pieces that this reply covers: what lay there is shed.
		if _, err := s.table.Set(s.replyKey(h.Budget.Ring, at+i), nil, 0); err != nil {
			return place{}, false
		}
	}
	return place{uint32(h.Budget.Ring), uint32(at), uint32(len(s.buf))}, true
}

// turn moves a ring's cursor and gives the first of the pieces that it passed.
func (s *Shared) turn(ring, pieces, need int) (at int, ok bool) {
	key := s.prefix + "c/" + strconv.Itoa(ring)
	for range maxTries {
		v, cas, found, err := s.table.Get(key)
		if err != nil {
			return 0, false
		}
		cursor := uint64(0)
		if !found {
			cas = InsertIfAbsent
		} else if len(v) == 8 {
			cursor = le.Uint64(v)
		}
		at = int(cursor % uint64(pieces))
		if at+need > pieces {
			// A reply never wraps; the tail it leaves keeps older replies a while longer.
			at = 0
		}
		next := le.AppendUint64(nil, uint64(at+need))
		done, err := s.table.Set(key, next, cas)
		if err != nil {
			return 0, false
		}
		if done {
			return at, true
		}
	}
	return 0, false
}

func (s *Shared) replyKey(ring, at int) string {
	return s.prefix + "r/" + strconv.Itoa(ring) + "/" + strconv.Itoa(at)
}

// fetch reads the reply of a completed entry.
func (s *Shared) fetch(e entry) (Reply, bool) {
	p := e.place()
	b, _, found, err := s.table.Get(s.replyKey(int(p.ring), int(p.at)))
	if err != nil || !found {
		return Reply{}, false
	}
	id := e.id()
	return readReply(b, &id, e.fence(), p.length)
}
