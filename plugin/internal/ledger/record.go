package ledger

import (
	"encoding/binary"
	"time"
)

// The record of a bucket: a header, then the ways in use, each an entry. Numbers
// are little endian.
//
//	header   magic 'c' 'o', format, 0 | epoch u32 | fence u64 (the last one given out)
//	entry    length u16 | id 32 | expires i64 | version u8 | body of that version
//	body v1  state u8, flags u8, attempt u16 | fingerprint 32 | fence u64 | holder u64 |
//	         policy u64 | principal u64 | scope u64 | session u64 | request u64 |
//	         claimed i64 | settled i64 | lease, ttl, window u32 in ms |
//	         ring, place, lap, reply length u32
//
// length, id and expires stand in front of the version, so that a build that cannot
// read an entry still knows whose it is and until when it must leave it alone.
const (
	bucketFormat = 1
	headerSize   = 16

	entryVersion = 1
	offID        = 2
	offExpires   = 34
	offVersion   = 42
	prefixSize   = 43

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
	entrySize      = 179
)

// Flags of an entry; flagTask is a reply's too.
const (
	flagTask = 1 << iota // the reply hands out a task
	flagShed             // the reply is gone
)

var le = binary.LittleEndian

// entry is one way of a bucket, in place.
type entry []byte

func (e entry) id() [32]byte          { return [32]byte(e[offID:]) }
func (e entry) expiresAt() Mono       { return Mono(le.Uint64(e[offExpires:])) }
func (e entry) state() State          { return State(e[offState]) }
func (e entry) flags() byte           { return e[offFlags] }
func (e entry) attempt() int          { return int(le.Uint16(e[offAttempt:])) }
func (e entry) fingerprint() [32]byte { return [32]byte(e[offFingerprint:]) }
func (e entry) fence() uint64         { return le.Uint64(e[offFence:]) }
func (e entry) holder() uint64        { return le.Uint64(e[offHolder:]) }
func (e entry) policy() uint64        { return le.Uint64(e[offPolicy:]) }
func (e entry) principal() uint64     { return le.Uint64(e[offPrincipal:]) }
func (e entry) scope() uint64         { return le.Uint64(e[offScope:]) }
func (e entry) claimed() Mono         { return Mono(le.Uint64(e[offClaimed:])) }
func (e entry) settled() Mono         { return Mono(le.Uint64(e[offSettled:])) }
func (e entry) leaseTTL() Mono        { return e.millis(offLease) }

func (e entry) millis(off int) Mono { return Mono(le.Uint32(e[off:])) * Mono(time.Millisecond) }

func (e entry) slot() slot {
	return slot{le.Uint32(e[offRing:]), le.Uint32(e[offSlot:]), le.Uint32(e[offLap:]), le.Uint32(e[offLength:])}
}

func (e entry) setSlot(p slot) {
	le.PutUint32(e[offRing:], p.ring)
	le.PutUint32(e[offSlot:], p.at)
	le.PutUint32(e[offLap:], p.lap)
	le.PutUint32(e[offLength:], p.length)
}

func (e entry) prior() Prior {
	return Prior{
		Known: true, Session: le.Uint64(e[offSession:]), Request: le.Uint64(e[offRequest:]),
		Claimed: e.claimed(), Settled: e.settled(), Attempt: e.attempt(),
	}
}

// readable reports whether this build knows what the entry's body says.
func (e entry) readable() bool {
	return e[offVersion] == entryVersion && len(e) == entrySize && e.state() != Free && e.state() < states
}

// expired reports whether the entry counts for nothing any more. A call in flight
// does not end by time; one that this build cannot read ends when its header says.
func (e entry) expired(now Mono) bool {
	if e.readable() && !table[e.state()].timed {
		return false
	}
	return e.expiresAt() <= now
}

// turn makes the entry, in place, what it is after an event that settles it.
func (e entry) turn(next State, now Mono) {
	e[offState] = byte(next)
	le.PutUint64(e[offExpires:], uint64(expires(e.claimed(), now, e.millis(offTTL), e.millis(offWindow))))
	le.PutUint64(e[offSettled:], uint64(now))
}

// bucket is the record of one bucket. Nil is a bucket never written.
type bucket []byte

// valid reports whether the bytes are a bucket of this format, whole. Foreign bytes
// are never trusted, and never overwritten.
func (b bucket) valid() bool {
	if len(b) == 0 {
		return true
	}
	if len(b) < headerSize || b[0] != 'c' || b[1] != 'o' || b[2] != bucketFormat {
		return false
	}
	rest := b[headerSize:]
	for len(rest) > 0 {
		if len(rest) < prefixSize {
			return false
		}
		n := int(le.Uint16(rest))
		if n < prefixSize || n > len(rest) {
			return false
		}
		rest = rest[n:]
	}
	return true
}

func (b bucket) epoch() uint32 {
	if len(b) == 0 {
		return 0
	}
	return le.Uint32(b[4:])
}

func (b bucket) fence() uint64 {
	if len(b) == 0 {
		return 0
	}
	return le.Uint64(b[8:])
}

// each calls f with every entry, as stored, until f returns false.
func (b bucket) each(f func(entry) bool) {
	if len(b) == 0 {
		return
	}
	for rest := b[headerSize:]; len(rest) > 0; {
		n := int(le.Uint16(rest))
		if !f(entry(rest[:n:n])) {
			return
		}
		rest = rest[n:]
	}
}

// find gives the entry of an id, in this build's version where it can be read.
func (b bucket) find(id *[32]byte) (e entry, found bool) {
	b.each(func(w entry) bool {
		if w.id() == *id {
			e, found = current(w), true
		}
		return !found
	})
	return e, found
}

// appendHeader starts a record.
func appendHeader(dst []byte, epoch uint32, fence uint64) []byte {
	dst = append(dst, 'c', 'o', bucketFormat, 0)
	dst = le.AppendUint32(dst, epoch)
	return le.AppendUint64(dst, fence)
}

// appendOthers appends every way but the one of id, as stored, and returns their
// number.
func appendOthers(dst []byte, b bucket, id *[32]byte) ([]byte, int) {
	n := 0
	b.each(func(w entry) bool {
		if w.id() != *id {
			dst = append(dst, w...)
			n++
		}
		return true
	})
	return dst, n
}

// unreadable is how long a build that cannot read a call in flight leaves it alone.
const unreadable = Mono(24 * 3600 * 1e9)

// appendClaim appends a new entry in flight.
func appendClaim(dst []byte, c *Claim, policy uint64, h *Lease) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, entrySize)...)
	e := entry(dst[at:])
	le.PutUint16(e, entrySize)
	copy(e[offID:], c.ID[:])
	le.PutUint64(e[offExpires:], uint64(h.Claimed+unreadable))
	e[offVersion] = entryVersion
	e[offState] = byte(InFlight)
	le.PutUint16(e[offAttempt:], uint16(min(h.Attempt, 1<<16-1)))
	copy(e[offFingerprint:], c.Fingerprint[:])
	le.PutUint64(e[offFence:], h.Fence)
	le.PutUint64(e[offHolder:], h.Holder)
	le.PutUint64(e[offPolicy:], policy)
	le.PutUint64(e[offPrincipal:], c.Principal)
	le.PutUint64(e[offScope:], c.Scope)
	le.PutUint64(e[offSession:], c.Session)
	le.PutUint64(e[offRequest:], c.Request)
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
