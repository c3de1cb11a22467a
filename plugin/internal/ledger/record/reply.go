package record

import "github.com/callonce/callonce/plugin/internal/ledger"

// A reply carries its entry's id and fence: a slot that was taken over says so
// itself.
//
//	reply  magic 'c' 'r', format, flags | id 32 | fence u64 | status u16 | id start u32,
//	       id end u32 | message
const (
	replyFormat = 1
	ReplyHeader = 54 // bytes before the message
)

// AppendReply appends the record of a reply to the claim of an id and fence.
func AppendReply(dst []byte, r *ledger.Reply, id *[32]byte, fence uint64) []byte {
	flags := byte(0)
	if r.Task {
		flags |= FlagTask
	}
	dst = append(dst, 'c', 'r', replyFormat, flags)
	dst = append(dst, id[:]...)
	dst = le.AppendUint64(dst, fence)
	dst = le.AppendUint16(dst, uint16(r.Status))
	dst = le.AppendUint32(dst, uint32(r.IDStart))
	dst = le.AppendUint32(dst, uint32(r.IDEnd))
	return append(dst, r.Message...)
}

// ReadReply reads a record back; the message aliases it. ok is false unless it is whole, as long as the entry says, and the reply of
// this very id and fence.
func ReadReply(b []byte, id *[32]byte, fence uint64, length uint32) (r ledger.Reply, ok bool) {
	if !is(b, ReplyHeader, 'r', replyFormat) || uint32(len(b)) != length {
		return ledger.Reply{}, false
	}
	if [32]byte(b[4:]) != *id || le.Uint64(b[36:]) != fence {
		return ledger.Reply{}, false
	}
	start, end := le.Uint32(b[46:]), le.Uint32(b[50:])
	if start >= end || uint64(end) > uint64(len(b)-ReplyHeader) {
		return ledger.Reply{}, false
	}
	return ledger.Reply{
		Status:  int(le.Uint16(b[44:])),
		IDStart: int(start),
		IDEnd:   int(end),
		Task:    b[3]&FlagTask != 0,
		Message: b[ReplyHeader:],
	}, true
}
