package record

import (
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// An entry is one way of a bucket.
//
//	entry    length u16 | id 32 | expires i64 | version u8 | body of that version
//	body v1  state u8, flags u8, attempt u16 | fingerprint 32 | fence u64 | holder u64 |
//	         policy u64 | principal u64 | scope u64 | session u64 | request u64 |
//	         claimed i64 | settled i64 | lease, ttl, window u32 in ms |
//	         ring, slot, lap, reply length u32
//	body v2  that of v1 | cause u8 | status u16 | tool u64
//
// length, id and expires stand in front of the version, so that a build that cannot
// read an entry still knows whose it is and until when it must leave it alone.
const (
	EntryVersion = 2
	EntrySize    = 190 // bytes of an entry of this version
	PrefixSize   = 43  // bytes up to the body

	offID      = 2
	offExpires = 34
	offVersion = 42

	offState       = 43
	offFlags       = 44
	offAttempt     = 45
	offFingerprint = 47
	offFence       = 79
	offHolder      = 87
	offPolicy      = 95
	offPrincipal   = 103
	offScope       = 111
	offSession     = 119
	offRequest     = 127
	offClaimed     = 135
	offSettled     = 143
	offLease       = 151
	offTTL         = 155
	offWindow      = 159
	offRing        = 163
	offSlot        = 167
	offLap         = 171
	offLength      = 175
	offCause       = 179
	offStatus      = 180
	offTool        = 182
)

// Flags of an entry; FlagTask is a reply's too.
const (
	FlagTask      = 1 << iota // the reply hands out a task
	FlagShed                  // the reply was overwritten
	FlagElsewhere             // an operator says that the call ran: there is no reply
	FlagHeld                  // an operator lets nobody take the unknown outcome over
)

// Foreseeable is how far into the future a time may lie and still be taken for one of ours; it is also how long a build that cannot
// read a call in flight leaves it alone.
const Foreseeable = ledger.Mono(24 * 3600 * 1e9)

// Entry is one way of a bucket, in place. Beyond ID and ExpiresAt nothing may be asked of one that is not Readable.
type Entry []byte

// ID is the stored id.
func (e Entry) ID() [32]byte { return [32]byte(e[offID:]) }

// ExpiresAt is when the entry ends, if its state ends by time.
func (e Entry) ExpiresAt() ledger.Mono { return ledger.Mono(le.Uint64(e[offExpires:])) }

func (e Entry) State() ledger.State   { return ledger.State(e[offState]) }
func (e Entry) Flags() byte           { return e[offFlags] }
func (e Entry) Attempt() int          { return int(le.Uint16(e[offAttempt:])) }
func (e Entry) Fingerprint() [32]byte { return [32]byte(e[offFingerprint:]) }
func (e Entry) Fence() uint64         { return le.Uint64(e[offFence:]) }
func (e Entry) Holder() uint64        { return le.Uint64(e[offHolder:]) }
func (e Entry) Policy() uint64        { return le.Uint64(e[offPolicy:]) }
func (e Entry) Principal() uint64     { return le.Uint64(e[offPrincipal:]) }
func (e Entry) Scope() uint64         { return le.Uint64(e[offScope:]) }
func (e Entry) Claimed() ledger.Mono  { return ledger.Mono(le.Uint64(e[offClaimed:])) }
func (e Entry) Settled() ledger.Mono  { return ledger.Mono(le.Uint64(e[offSettled:])) }
func (e Entry) LeaseTTL() ledger.Mono { return e.millis(offLease) }
func (e Entry) TTL() ledger.Mono      { return e.millis(offTTL) }
func (e Entry) Window() ledger.Mono   { return e.millis(offWindow) }
func (e Entry) Tool() uint64          { return le.Uint64(e[offTool:]) }

// Why is how the entry came to be what it is; nothing of a call in flight.
func (e Entry) Why() ledger.Why {
	return ledger.Why{Cause: ledger.Cause(e[offCause]), Status: int(le.Uint16(e[offStatus:]))}
}

func (e Entry) millis(off int) ledger.Mono {
	return ledger.Mono(le.Uint32(e[off:])) * ledger.Mono(time.Millisecond)
}

// Slot is where the reply lies; its Length is 0 where there is none.
func (e Entry) Slot() Slot {
	return Slot{le.Uint32(e[offRing:]), le.Uint32(e[offSlot:]), le.Uint32(e[offLap:]), le.Uint32(e[offLength:])}
}

// Prior is what a repeat is told of the call.
func (e Entry) Prior() ledger.Prior {
	return ledger.Prior{
		Known: true, Session: le.Uint64(e[offSession:]), Request: le.Uint64(e[offRequest:]),
		Claimed: e.Claimed(), Settled: e.Settled(), Attempt: e.Attempt(),
	}
}

// Readable reports whether this build knows what the entry's body says.
func (e Entry) Readable() bool {
	return e[offVersion] == EntryVersion && len(e) == EntrySize && e.State() != ledger.Free && e.State() < ledger.NumStates
}

// Stored is where a reply is kept, and what the entry must say of it.
type Stored struct {
	At    Slot
	Flags byte
}

// Turned is what an event makes of an entry.
type Turned struct {
	To      ledger.State
	Settled ledger.Mono
	Expires ledger.Mono
	Why     ledger.Why
}

// AppendTurned appends an entry as it is once an event has settled it; see AppendSettled.
func AppendTurned(dst []byte, e Entry, t Turned, reply *Stored) []byte {
	at := len(dst)
	dst = append(dst, e...)
	w := dst[at:]
	w[offState] = byte(t.To)
	le.PutUint64(w[offExpires:], uint64(t.Expires))
	le.PutUint64(w[offSettled:], uint64(t.Settled))
	w[offCause] = byte(t.Why.Cause)
	le.PutUint16(w[offStatus:], uint16(min(max(t.Why.Status, 0), 1<<16-1)))
	if reply != nil {
		le.PutUint32(w[offRing:], reply.At.Ring)
		le.PutUint32(w[offSlot:], reply.At.At)
		le.PutUint32(w[offLap:], reply.At.Lap)
		le.PutUint32(w[offLength:], reply.At.Length)
		w[offFlags] = reply.Flags
	}
	return dst
}

// AppendShed appends an entry whose reply was overwritten.
func AppendShed(dst []byte, e Entry) []byte {
	at := len(dst)
	dst = append(dst, e...)
	dst[at+offFlags] |= FlagShed
	return dst
}

// appendClaim appends a new entry in flight.
func appendClaim(dst []byte, c *ledger.Claim, h *ledger.Lease) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, EntrySize)...)
	e := Entry(dst[at:])
	le.PutUint16(e, EntrySize)
	copy(e[offID:], c.ID[:])
	le.PutUint64(e[offExpires:], uint64(h.Claimed+Foreseeable))
	e[offVersion] = EntryVersion
	e[offState] = byte(ledger.InFlight)
	le.PutUint16(e[offAttempt:], uint16(min(h.Attempt, 1<<16-1)))
	copy(e[offFingerprint:], c.Fingerprint[:])
	le.PutUint64(e[offFence:], h.Fence)
	le.PutUint64(e[offHolder:], h.Holder)
	le.PutUint64(e[offPolicy:], c.Policy)
	le.PutUint64(e[offPrincipal:], c.Principal)
	le.PutUint64(e[offScope:], c.Scope)
	le.PutUint64(e[offSession:], c.Session)
	le.PutUint64(e[offRequest:], c.Request)
	le.PutUint64(e[offTool:], c.Tool)
	le.PutUint64(e[offClaimed:], uint64(h.Claimed))
	le.PutUint32(e[offLease:], millis(c.Terms.LeaseTTL))
	le.PutUint32(e[offTTL:], millis(c.Terms.TTL))
	le.PutUint32(e[offWindow:], millis(c.Terms.Window))
	return dst
}

// millis rounds up: an entry never ends before its time.
func millis(d time.Duration) uint32 {
	return uint32(min(max((d+time.Millisecond-1)/time.Millisecond, 0), 1<<32-1))
}
