package ledger

// A reply carries its entry's id and fence: a place that was taken over says so
// itself.
//
//	reply  magic 'c' 'r', format, flags | id 32 | fence u64 | status u16 | id start u32,
//	       id end u32 | message
const (
	replyFormat = 1
	replyHeader = 54
)

// appendTo appends the reply's record.
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
	if len(b) < replyHeader || b[0] != 'c' || b[1] != 'r' || b[2] != replyFormat || uint32(len(b)) != length {
		return Reply{}, false
	}
	if [32]byte(b[4:]) != *id || le.Uint64(b[36:]) != fence {
		return Reply{}, false
	}
	start, end := le.Uint32(b[46:]), le.Uint32(b[50:])
	if start >= end || uint64(end) > uint64(len(b)-replyHeader) {
		return Reply{}, false
	}
	return Reply{
		Status:  int(le.Uint16(b[44:])),
		IDStart: int(start),
		IDEnd:   int(end),
		Task:    b[3]&flagTask != 0,
		Message: b[replyHeader:],
	}, true
}
