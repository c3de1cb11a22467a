package etcd

import (
	"encoding/binary"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// A record is the value of a key. Numbers are little endian; times are nanoseconds since 1970 by the holder's clock, for display only.
//
//	record   magic 'c' 'e', version u8, state u8, flags u8, 0 | attempt u16 | fingerprint 32 | holder u64 | nonce u64 |
//	         session u64 | request u64 | claimed i64 | settled i64 |
//	         policy u64 | tool u64 | scope u64 | cause u8, 0 | status u16 | then, of a completed call with an answer:
//	         status u16, 0 0 | start and end of the id u32 | message
//
// Version 1 ends its head with settled.
const (
	recordVersion = 2

	offState       = 3
	offFlags       = 4
	offAttempt     = 6
	offFingerprint = 8
	offHolder      = 40
	offNonce       = 48
	offSession     = 56
	offRequest     = 64
	offClaimed     = 72
	offSettled     = 80
	offPolicy      = 88
	offTool        = 96
	offScope       = 104
	offCause       = 112
	offStatus      = 114
	recordHead     = 116
	firstHead      = 88 // of version 1
	replyHead      = 12

	flagTask      = 1
	flagElsewhere = 2 // completed, an operator says, and there is no answer
	flagHeld      = 4 // of unknown outcome, and an operator lets nobody take it over
)

var le = binary.LittleEndian

// record is one in hand.
type record struct {
	state            ledger.State
	attempt          int
	fingerprint      [32]byte
	holder, nonce    uint64
	session, request uint64
	claimed, settled ledger.Mono
	policy, tool     uint64
	scope            uint64 // as operators know it, 0 = not known
	why              ledger.Why
	held             bool
	reply            ledger.Reply
}

func (r *record) encode() []byte {
	size := recordHead
	answered := r.state == ledger.Completed && !r.reply.Elsewhere
	if answered {
		size += replyHead + len(r.reply.Message)
	}
	b := make([]byte, recordHead, size)
	copy(b, []byte{'c', 'e', recordVersion, byte(r.state)})
	switch {
	case answered && r.reply.Task:
		b[offFlags] = flagTask
	case r.state == ledger.Completed && r.reply.Elsewhere:
		b[offFlags] = flagElsewhere
	case r.state == ledger.Unknown && r.held:
		b[offFlags] = flagHeld
	}
	le.PutUint16(b[offAttempt:], uint16(min(r.attempt, 1<<16-1)))
	copy(b[offFingerprint:], r.fingerprint[:])
	le.PutUint64(b[offHolder:], r.holder)
	le.PutUint64(b[offNonce:], r.nonce)
	le.PutUint64(b[offSession:], r.session)
	le.PutUint64(b[offRequest:], r.request)
	le.PutUint64(b[offClaimed:], uint64(r.claimed))
	le.PutUint64(b[offSettled:], uint64(r.settled))
	le.PutUint64(b[offPolicy:], r.policy)
	le.PutUint64(b[offTool:], r.tool)
	le.PutUint64(b[offScope:], r.scope)
	b[offCause] = byte(r.why.Cause)
	le.PutUint16(b[offStatus:], uint16(min(max(r.why.Status, 0), 1<<16-1)))
	if answered {
		b = le.AppendUint16(b, uint16(r.reply.Status))
		b = append(b, 0, 0)
		b = le.AppendUint32(b, uint32(r.reply.IDStart))
		b = le.AppendUint32(b, uint32(r.reply.IDEnd))
		b = append(b, r.reply.Message...)
	}
	return b
}

// decodeRecord reads a record. ok is false for foreign bytes, and for versions that this build does not know: what depends on them is
// refused, and they are left alone. The message aliases b.
func decodeRecord(b []byte) (r record, ok bool) {
	if len(b) < firstHead || b[0] != 'c' || b[1] != 'e' || b[2] < 1 || b[2] > recordVersion || b[5] != 0 {
		return r, false
	}
	head := firstHead
	if b[2] == recordVersion {
		if head = recordHead; len(b) < head || b[offCause+1] != 0 {
			return r, false
		}
	}
	r = record{
		state: ledger.State(b[offState]), attempt: int(le.Uint16(b[offAttempt:])), fingerprint: [32]byte(b[offFingerprint:]),
		holder: le.Uint64(b[offHolder:]), nonce: le.Uint64(b[offNonce:]), session: le.Uint64(b[offSession:]), request: le.Uint64(b[offRequest:]),
		claimed: ledger.Mono(le.Uint64(b[offClaimed:])), settled: ledger.Mono(le.Uint64(b[offSettled:])),
	}
	if head == recordHead {
		r.policy, r.tool, r.scope = le.Uint64(b[offPolicy:]), le.Uint64(b[offTool:]), le.Uint64(b[offScope:])
		r.why = ledger.Why{Cause: ledger.Cause(b[offCause]), Status: int(le.Uint16(b[offStatus:]))}
	}
	rest := b[head:]
	switch flags := b[offFlags]; r.state {
	case ledger.InFlight, ledger.NotReplayable:
		return r, len(rest) == 0 && flags == 0
	case ledger.Unknown:
		r.held = flags == flagHeld
		return r, len(rest) == 0 && (flags == 0 || r.held && head == recordHead)
	case ledger.Completed:
		if flags == flagElsewhere && head == recordHead {
			r.reply.Elsewhere = true
			return r, len(rest) == 0
		}
	default:
		return r, false
	}
	if len(rest) < replyHead || rest[2]|rest[3] != 0 || b[offFlags] > flagTask {
		return r, false
	}
	m := rest[replyHead:]
	start, end := le.Uint32(rest[4:]), le.Uint32(rest[8:])
	if start > end || uint64(end) > uint64(len(m)) {
		return r, false
	}
	r.reply = ledger.Reply{Status: int(le.Uint16(rest)), IDStart: int(start), IDEnd: int(end), Task: b[offFlags]&flagTask != 0, Message: m}
	return r, true
}
