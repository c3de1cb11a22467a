package record

import (
	"strconv"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// MaxTries bounds every compare-and-swap loop: a worker that loses that often stops
// trying, and what needed the swap is refused or left for later, so that no callback runs without end.
const MaxTries = 64

// Status is what became of reading a record.
type Status uint8

const (
	// Failed: the table did not answer.
	Failed Status = iota
	// Absent: there is no such record; the cas inserts one.
	Absent
	// Present: it is there, and valid.
	Present
	// Foreign: it is there and not one of ours. It must be left alone.
	Foreign
)

// OK says that the record may be written, with the cas that came along.
func (s Status) OK() bool { return s == Absent || s == Present }

// Table is shared data, and who is told of foreign bytes in it.
type Table struct {
	ledger.Table
	Foreign func(key string)
}

// Read gives a record and the cas to swap it with. What is Foreign is given to look at, and may not be written.
func (t *Table) Read(key string, valid func([]byte) bool) (v []byte, cas uint32, st Status) {
	v, cas, found, err := t.Get(key)
	switch {
	case err != nil:
		return nil, 0, Failed
	case !found:
		return nil, ledger.InsertIfAbsent, Absent
	case !valid(v):
		t.Foreign(key)
		return v, 0, Foreign
	}
	return v, cas, Present
}

// Buckets are the buckets of a table. Not for concurrent use.
type Buckets struct {
	table  *Table
	prefix string
	salt   [2]uint64
	keys   []string // made as they are needed
}

// NewBuckets gives so many; their keys begin with prefix, and salt places ids in them.
func NewBuckets(t *Table, prefix string, n int, salt [2]uint64) Buckets {
	return Buckets{table: t, prefix: prefix, salt: salt, keys: make([]string, n)}
}

// Of is the number of an id's bucket.
func (b *Buckets) Of(id *[32]byte) int { return int(mixID(id, b.salt) % uint64(len(b.keys))) }

// Key is the key of a bucket.
func (b *Buckets) Key(n int) string {
	if b.keys[n] == "" {
		b.keys[n] = b.prefix + "b/" + strconv.Itoa(n)
	}
	return b.keys[n]
}

// Reading is a bucket as it was read.
type Reading struct {
	Status
	Bucket Bucket
	Epoch  uint32 // of the newest recount that has counted the bucket, 0 = none
	Fence  uint64 // the last one given out, 0 = none
	Entry  Entry  // of the id that was looked up, in this build's version where it can be read; nil = there is none
	key    string
	cas    uint32
}

// Read reads a bucket.
func (b *Buckets) Read(n int) (r Reading) {
	r.key = b.Key(n)
	r.Bucket, r.cas, r.Status = b.table.Read(r.key, ValidBucket)
	if r.Status == Present {
		r.Epoch, r.Fence = r.Bucket.Epoch(), r.Bucket.Fence()
	}
	return r
}

// Lookup reads the bucket of an id, and finds its entry.
func (b *Buckets) Lookup(id *[32]byte) (r Reading) {
	if r = b.Read(b.Of(id)); r.OK() {
		r.Entry = r.Bucket.Find(id)
	}
	return r
}

// Swap writes a bucket if nobody did since it was read. After an error it may have been written all the same.
func (b *Buckets) Swap(r *Reading, to []byte) (won bool, err error) {
	return b.table.Set(r.key, to, r.cas)
}
