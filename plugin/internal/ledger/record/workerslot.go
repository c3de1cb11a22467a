package record

import "github.com/callonce/callonce/plugin/internal/ledger"

// A worker registers in a worker slot.
//
//	worker slot  magic 'c' 'h', format, 0 | incarnation u64 | last heartbeat i64 | lease i64
//
// lease is the longest that the holder ever claimed with.
const (
	workerSlotFormat = 1
	WorkerSlotSize   = 28
	WorkerSlotBits   = 12 // of an incarnation, the low ones, that name its slot; the others are random
)

// WorkerSlot is the record, in place.
type WorkerSlot []byte

// Valid reports whether the bytes are a worker slot, with a lease that can be.
func (h WorkerSlot) Valid() bool {
	return len(h) == WorkerSlotSize && is(h, WorkerSlotSize, 'h', workerSlotFormat) && h.LeaseTTL() > 0 && h.LeaseTTL() <= Foreseeable
}

func (h WorkerSlot) Incarnation() uint64    { return le.Uint64(h[4:]) }
func (h WorkerSlot) Heartbeat() ledger.Mono { return ledger.Mono(le.Uint64(h[12:])) }
func (h WorkerSlot) LeaseTTL() ledger.Mono  { return ledger.Mono(le.Uint64(h[20:])) }

// AppendWorkerSlot appends the record.
func AppendWorkerSlot(dst []byte, incarnation uint64, heartbeat, lease ledger.Mono) []byte {
	dst = append(dst, 'c', 'h', workerSlotFormat, 0)
	dst = le.AppendUint64(dst, incarnation)
	dst = le.AppendUint64(dst, uint64(heartbeat))
	return le.AppendUint64(dst, uint64(lease))
}

// Incarnation makes one out of eight random bytes, for a slot.
func Incarnation(random *[8]byte, slot int) uint64 {
	n := le.Uint64(random[:])<<WorkerSlotBits | uint64(slot)
	if n>>WorkerSlotBits == 0 {
		n |= 1 << WorkerSlotBits
	}
	return n
}

// WorkerSlotOf is the slot that an incarnation is registered in.
func WorkerSlotOf(incarnation uint64) int { return int(incarnation & (1<<WorkerSlotBits - 1)) }

// RandomNumber makes a number out of eight random bytes.
func RandomNumber(random *[8]byte) uint64 { return le.Uint64(random[:]) }
