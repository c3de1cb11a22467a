package shared

import (
	"strconv"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
	"github.com/callonce/callonce/plugin/internal/scratch"
)

// Replies lie in rings of fixed pieces, one ring for each policy. A cursor goes
// round; a reply takes whole pieces and overwrites the oldest, so that shedding by
// age costs nothing and the bytes of a ring are bounded.

// passed reports whether the cursor has gone over a slot since it was written, or
// the ring was cut shorter.
func passed(c record.Cursor, p record.Slot) bool {
	// Signed: a cursor that was read before the reply was written has seen nothing yet.
	laps := int32(c.Lap - p.Lap)
	return laps > 1 || laps == 1 && (c.Next > p.At || p.At >= c.Top)
}

// advance takes the pieces for one reply out of a ring of so many, the next ones or,
// where a reply would wrap, the first. The tail that it leaves keeps older replies a
// while longer. cut is how many pieces to empty from n.Top on, in a ring that became shorter.
func advance(c record.Cursor, pieces, need uint32) (at uint32, n record.Cursor, cut uint32) {
	at = c.Next
	if uint64(at)+uint64(need) > uint64(pieces) {
		at, c.Lap = 0, c.Lap+1
	}
	c.Next = at + need
	c.Top = max(c.Top, c.Next)
	if c.Top > pieces {
		cut = min(c.Top-pieces, cutsPerTurn)
		c.Top -= cut
	}
	return at, c, cut
}

// cutsPerTurn bounds the pieces that one turn empties in a ring that became shorter.
const cutsPerTurn = 16

// storeReply writes a reply into its ring and says where. ok is false when it does not
// fit the ring or the store would not take it.
func (s *Shared) storeReply(h *ledger.Lease, r *ledger.Reply) (p record.Slot, ok bool) {
	if len(r.Message) > h.Budget.Bytes {
		return record.Slot{}, false
	}
	// The message is what counts; one as large as the whole ring takes all of it.
	pieces := uint32(max(h.Budget.Bytes/s.layout.PieceBytes, 1))
	need := min(uint32((len(r.Message)+s.layout.PieceBytes-1)/s.layout.PieceBytes), pieces)
	at, lap, ok := s.takePieces(h.Budget.Ring, pieces, max(need, 1))
	if !ok {
		return record.Slot{}, false
	}
	// First the pieces that this reply covers, then itself: what lay there is shed, and
	// the ring never holds more than its bytes.
	for i := uint32(1); i < need; i++ {
		if _, err := s.table.Set(s.replyKey(h.Budget.Ring, at+i), nil, 0); err != nil {
			return record.Slot{}, false
		}
	}
	defer func() { s.buf = scratch.Keep(s.buf) }()
	s.buf = record.AppendReply(s.buf[:0], r, &h.ID, h.Fence)
	if done, err := s.table.Set(s.replyKey(h.Budget.Ring, at), s.buf, 0); err != nil || !done {
		return record.Slot{}, false
	}
	return record.Slot{Ring: uint32(h.Budget.Ring), At: at, Lap: lap, Length: uint32(len(s.buf))}, true
}

// takePieces moves a ring's cursor and gives the first of the pieces that it passed.
func (s *Shared) takePieces(ring int, pieces, need uint32) (at, lap uint32, ok bool) {
	for range record.MaxTries {
		c, cas, ok := s.readRing(ring)
		if !ok {
			return 0, 0, false
		}
		at, next, cut := advance(c, pieces, need)
		s.buf = record.AppendCursor(s.buf[:0], next)
		done, err := s.table.Set(s.cursorKey(ring), s.buf, cas)
		if err != nil {
			return 0, 0, false
		}
		if !done {
			continue
		}
		for i := range cut {
			// Best effort: what stays is overwritten or emptied at a later turn.
			_, _ = s.table.Set(s.replyKey(ring, next.Top+i), nil, 0)
		}
		return at, next.Lap, true
	}
	return 0, 0, false
}

// readRing gives a ring's cursor, zero for a ring never used.
func (s *Shared) readRing(ring int) (c record.Cursor, cas uint32, ok bool) {
	v, cas, st := s.table.Read(s.cursorKey(ring), record.ValidCursor)
	if st == record.Present {
		c = record.ReadCursor(v)
	}
	return c, cas, st.OK()
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
func (s *Shared) fetch(e record.Entry) (ledger.Reply, bool) {
	p := e.Slot()
	if p.Length == 0 {
		return ledger.Reply{}, false
	}
	b, _, found, err := s.table.Get(s.replyKey(int(p.Ring), p.At))
	if err != nil || !found {
		return ledger.Reply{}, false
	}
	id := e.ID()
	return record.ReadReply(b, &id, e.Fence(), p.Length)
}
