package ledger

import (
	"strconv"

	"github.com/callonce/callonce/plugin/internal/scratch"
)

// Replies lie in rings of fixed pieces, one ring for each policy. A cursor goes
// round; a reply takes whole pieces and overwrites the oldest, so that shedding by
// age costs nothing and the bytes of a ring are bounded.
//
//	cursor  magic 'c' 'c', format, 0 | next piece u32 | pieces ever used u32 | lap u32
const (
	cursorFormat = 1
	cursorSize   = 16
)

// slot is where a reply lies, and in which lap of the cursor it was written.
type slot struct{ ring, at, lap, length uint32 }

type cursor struct{ next, top, lap uint32 }

func readCursor(b []byte) (c cursor, ok bool) {
	if len(b) != cursorSize || b[0] != 'c' || b[1] != 'c' || b[2] != cursorFormat {
		return c, false
	}
	return cursor{le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])}, true
}

func (c cursor) appendTo(dst []byte) []byte {
	dst = append(dst, 'c', 'c', cursorFormat, 0)
	dst = le.AppendUint32(dst, c.next)
	dst = le.AppendUint32(dst, c.top)
	return le.AppendUint32(dst, c.lap)
}

// passed reports whether the cursor has gone over a place since it was written, or
// the ring was cut shorter.
func (c cursor) passed(p slot) bool {
	// Signed: a cursor that was read before the reply was written has seen nothing yet.
	laps := int32(c.lap - p.lap)
	return laps > 1 || laps == 1 && (c.next > p.at || p.at >= c.top)
}

// advance takes the pieces for one reply out of a ring of so many, the next ones or,
// where a reply would wrap, the first. The tail that it leaves keeps older replies a
// while longer.
func (c cursor) advance(pieces, need uint32) (at uint32, n cursor) {
	at = c.next
	if uint64(at)+uint64(need) > uint64(pieces) {
		at, c.lap = 0, c.lap+1
	}
	c.next = at + need
	c.top = max(c.top, c.next)
	return at, c
}

// cutsPerTurn bounds the pieces that one turn empties in a ring that became shorter.
const cutsPerTurn = 16

// storeReply writes a reply into its ring and says where. ok is false when it does not
// fit the ring or the store would not take it.
func (s *Shared) storeReply(h *Lease, r *Reply) (p slot, ok bool) {
	if len(r.Message) > h.Budget.Bytes {
		return slot{}, false
	}
	// The message is what counts; one as large as the whole ring takes all of it.
	pieces := uint32(max(h.Budget.Bytes/s.layout.PieceBytes, 1))
	need := min(uint32((len(r.Message)+s.layout.PieceBytes-1)/s.layout.PieceBytes), pieces)
	at, lap, ok := s.takePieces(h.Budget.Ring, pieces, max(need, 1))
	if !ok {
		return slot{}, false
	}
	// First the pieces that this reply covers, then itself: what lay there is shed, and
	// the ring never holds more than its bytes.
	for i := uint32(1); i < need; i++ {
		if _, err := s.table.Set(s.replyKey(h.Budget.Ring, at+i), nil, 0); err != nil {
			return slot{}, false
		}
	}
	defer func() { s.buf = scratch.Keep(s.buf) }()
	s.buf = r.appendTo(s.buf[:0], &h.ID, h.Fence)
	if done, err := s.table.Set(s.replyKey(h.Budget.Ring, at), s.buf, 0); err != nil || !done {
		return slot{}, false
	}
	return slot{uint32(h.Budget.Ring), at, lap, uint32(len(s.buf))}, true
}

// takePieces moves a ring's cursor and gives the first of the pieces that it passed.
func (s *Shared) takePieces(ring int, pieces, need uint32) (at, lap uint32, ok bool) {
	for range maxTries {
		c, cas, ok := s.readRing(ring)
		if !ok {
			return 0, 0, false
		}
		at, next := c.advance(pieces, need)
		cut := uint32(0)
		if next.top > pieces {
			cut = min(next.top-pieces, cutsPerTurn)
			next.top -= cut
		}
		s.buf = next.appendTo(s.buf[:0])
		done, err := s.table.Set(s.cursorKey(ring), s.buf, cas)
		if err != nil {
			return 0, 0, false
		}
		if !done {
			continue
		}
		for i := range cut {
			// Best effort: what stays is overwritten or emptied at a later turn.
			_, _ = s.table.Set(s.replyKey(ring, next.top+i), nil, 0)
		}
		return at, next.lap, true
	}
	return 0, 0, false
}

// readRing gives a ring's cursor, zero for a ring never used.
func (s *Shared) readRing(ring int) (c cursor, cas uint32, ok bool) {
	v, cas, found, err := s.table.Get(s.cursorKey(ring))
	if err != nil {
		return c, 0, false
	}
	if !found {
		return c, InsertIfAbsent, true
	}
	if c, ok = readCursor(v); !ok {
		s.foreign(s.cursorKey(ring))
	}
	return c, cas, ok
}

// ringKey is the key of a ring's cursor.
type ringKey struct {
	ring int
	key  string
}

func (s *Shared) cursorKey(ring int) string {
	if k := &s.latestRing; k.key == "" || k.ring != ring {
		*k = ringKey{ring, s.prefix + "c/" + strconv.Itoa(ring)}
	}
	return s.latestRing.key
}

func (s *Shared) replyKey(ring int, at uint32) string {
	k := append(append(s.keyBuf[:0], s.prefix...), "r/"...)
	k = append(strconv.AppendInt(k, int64(ring), 10), '/')
	s.keyBuf = strconv.AppendUint(k, uint64(at), 10)
	return string(s.keyBuf)
}

// fetch reads the reply of a completed entry.
func (s *Shared) fetch(e entry) (Reply, bool) {
	p := e.slot()
	if p.length == 0 {
		return Reply{}, false
	}
	b, _, found, err := s.table.Get(s.replyKey(int(p.ring), p.at))
	if err != nil || !found {
		return Reply{}, false
	}
	id := e.id()
	return readReply(b, &id, e.fence(), p.length)
}
