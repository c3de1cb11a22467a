package ledger

import "encoding/binary"

// The record of a bucket: a header, then the ways in use, each an entry. Numbers
// are little endian.
//
//	header   magic 'c' 'o', format, 0 | epoch u32 | fence u64 (the last one given out)
//	entry    length u16 | id 32 | expires i64 | version u8 | body of that version
//	body v1  state u8, flags u8, attempt u16 | fingerprint 32 | fence u64 | holder u64 |
//	         principal u64 | scope u64 | claimed i64 | settled i64 |
//	         ring u32, place u32, reply length u32
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
	offPrincipal   = 95
	offScope       = 103
	offClaimed     = 111
	offSettled     = 119
	offRing        = 127
	offPlace       = 131
	offLength      = 135
	entrySize      = 139
)

var le = binary.LittleEndian

// entry is one way of a bucket, in place.
type entry []byte

func (e entry) id() [32]byte          { return [32]byte(e[offID:]) }
func (e entry) expiresAt() Mono       { return Mono(le.Uint64(e[offExpires:])) }
func (e entry) readable() bool        { return e[offVersion] == entryVersion && len(e) == entrySize }
func (e entry) state() State          { return State(e[offState]) }
func (e entry) fingerprint() [32]byte { return [32]byte(e[offFingerprint:]) }
func (e entry) fence() uint64         { return le.Uint64(e[offFence:]) }
func (e entry) holder() uint64        { return le.Uint64(e[offHolder:]) }
func (e entry) claimed() Mono         { return Mono(le.Uint64(e[offClaimed:])) }
func (e entry) place() place {
	return place{le.Uint32(e[offRing:]), le.Uint32(e[offPlace:]), le.Uint32(e[offLength:])}
}

func (e entry) setPlace(p place) {
	le.PutUint32(e[offRing:], p.ring)
	le.PutUint32(e[offPlace:], p.at)
	le.PutUint32(e[offLength:], p.length)
}

// expired reports whether the entry counts for nothing any more. A call in flight
// does not end by time; one that this build cannot read ends when its header says.
func (e entry) expired(now Mono) bool {
	if e.readable() && e.state() == InFlight {
		return false
	}
	return e.expiresAt() <= now
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

func (b bucket) fence() uint64 {
	if len(b) == 0 {
		return 0
	}
	return le.Uint64(b[8:])
}

// each calls f with every entry until f returns false.
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

// find gives the entry of an id.
func (b bucket) find(id *[32]byte) (e entry, found bool) {
	b.each(func(w entry) bool {
		if w.id() == *id {
			e, found = w, true
		}
		return !found
	})
	return e, found
}

// appendHeader starts a record.
func appendHeader(dst []byte, old bucket, fence uint64) []byte {
	dst = append(dst, 'c', 'o', bucketFormat, 0)
	epoch := uint32(0)
	if len(old) > 0 {
		epoch = le.Uint32(old[4:])
	}
	dst = le.AppendUint32(dst, epoch)
	return le.AppendUint64(dst, fence)
}

// appendLive appends the ways that count, but for the one of id, and returns their
// number.
func appendLive(dst []byte, b bucket, id *[32]byte, now Mono) ([]byte, int) {
	n := 0
	b.each(func(w entry) bool {
		if !w.expired(now) && w.id() != *id {
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
func appendClaim(dst []byte, c *Claim, fence, holder uint64, now Mono) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, entrySize)...)
	e := entry(dst[at:])
	le.PutUint16(e, entrySize)
	copy(e[offID:], c.ID[:])
	le.PutUint64(e[offExpires:], uint64(now+unreadable))
	e[offVersion] = entryVersion
	e[offState] = byte(InFlight)
	le.PutUint16(e[offAttempt:], 1)
	copy(e[offFingerprint:], c.Fingerprint[:])
	le.PutUint64(e[offFence:], fence)
	le.PutUint64(e[offHolder:], holder)
	le.PutUint64(e[offPrincipal:], c.Principal)
	le.PutUint64(e[offScope:], c.Scope)
	le.PutUint64(e[offClaimed:], uint64(now))
	return dst
}
