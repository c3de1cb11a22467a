package record

import "github.com/callonce/callonce/plugin/internal/ledger"

// A bucket is a header, then the ways in use, each an entry.
//
//	header   magic 'c' 'o', format, 0 | epoch u32 | fence u64 (the last one given out)
const (
	bucketFormat = 1
	BucketHeader = 16 // bytes before the first entry
)

// Bucket is the record of one bucket. Nil is a bucket never written.
type Bucket []byte

// ValidBucket reports whether the bytes are a bucket of this format, whole, with entries of whatever version. Foreign bytes
// are never trusted, and never overwritten. An emptied bucket is foreign too: with it the fences given out are forgotten.
func ValidBucket(b []byte) bool {
	if !is(b, BucketHeader, 'o', bucketFormat) {
		return false
	}
	rest := b[BucketHeader:]
	for len(rest) > 0 {
		if len(rest) < PrefixSize {
			return false
		}
		n := int(le.Uint16(rest))
		if n < PrefixSize || n > len(rest) {
			return false
		}
		rest = rest[n:]
	}
	return true
}

// Ours reports whether the bytes may be a bucket of another build: by the letters alone.
func (b Bucket) Ours() bool { return len(b) > 1 && b[0] == 'c' && b[1] == 'o' }

// Epoch is that of the newest recount that has counted the bucket, 0 for none.
func (b Bucket) Epoch() uint32 {
	if len(b) == 0 {
		return 0
	}
	return le.Uint32(b[4:])
}

// Fence is the last one given out, 0 for none.
func (b Bucket) Fence() uint64 {
	if len(b) == 0 {
		return 0
	}
	return le.Uint64(b[8:])
}

// Each calls f with every entry, as stored, until f returns false.
func (b Bucket) Each(f func(Entry) bool) {
	if len(b) == 0 {
		return
	}
	for rest := b[BucketHeader:]; len(rest) > 0; {
		n := int(le.Uint16(rest))
		if !f(Entry(rest[:n:n])) {
			return
		}
		rest = rest[n:]
	}
}

// Find gives the entry of an id, in this build's version where it can be read; nil for none.
func (b Bucket) Find(id *[32]byte) (e Entry) {
	b.Each(func(w Entry) bool {
		if w.ID() == *id {
			e = Current(w)
		}
		return e == nil
	})
	return e
}

// AppendHeader starts a bucket.
func AppendHeader(dst []byte, epoch uint32, fence uint64) []byte {
	dst = append(dst, 'c', 'o', bucketFormat, 0)
	dst = le.AppendUint32(dst, epoch)
	return le.AppendUint64(dst, fence)
}

// appendOthers appends a header, and every way of b but the one of id, as stored. It returns the number of ways.
func appendOthers(dst []byte, b Bucket, fence uint64, id *[32]byte) ([]byte, int) {
	dst = AppendHeader(dst, b.Epoch(), fence)
	n := 0
	b.Each(func(w Entry) bool {
		if w.ID() != *id {
			dst = append(dst, w...)
			n++
		}
		return true
	})
	return dst, n
}

// AppendClaimed appends the bucket with a new entry in flight in place of the one of the claim's id. others is the number of the ways beside it.
func AppendClaimed(dst []byte, b Bucket, c *ledger.Claim, h *ledger.Lease) (out []byte, others int) {
	dst, others = appendOthers(dst, b, h.Fence, &c.ID)
	return appendClaim(dst, c, h), others
}

// AppendWithout appends the bucket without the entry of an id.
func AppendWithout(dst []byte, b Bucket, id *[32]byte) []byte {
	dst, _ = appendOthers(dst, b, b.Fence(), id)
	return dst
}

// AppendSettled appends the bucket with an entry of it as it is once an event has settled it, with a reply or,
// where reply is nil, the one that it had.
func AppendSettled(dst []byte, b Bucket, e Entry, t Turned, reply *Stored) []byte {
	id := e.ID()
	dst, _ = appendOthers(dst, b, b.Fence(), &id)
	return AppendTurned(dst, e, t, reply)
}
