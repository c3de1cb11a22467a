package etcd

import (
	"bytes"
	"testing"

	"github.com/callonce/callonce/plugin/internal/etcd/etcdsim"
	"github.com/callonce/callonce/plugin/internal/ledger"
)

// Nothing that comes from etcd, or lies there, makes the readers panic; what they take as a record they write again as it was.
func FuzzReaders(f *testing.F) {
	c := etcdsim.New()
	var x txn
	r := record{state: ledger.Completed, attempt: 2, nonce: 7, reply: ledger.Reply{Status: 200, IDStart: 1, IDEnd: 3, Task: true, Message: []byte("hello")}}
	x.then(opPut("k", r.encode(), 0))
	c.Apply(MethodTxn, x.message())
	var y txn
	y.compare("k", targetCreate, equal, 0)
	y.otherwise(opRange("k"))
	_, answer := c.Apply(MethodTxn, y.message())
	f.Add(answer)
	f.Add(r.encode())
	f.Add(appendNumber(appendNumber(nil, 2, 5), 3, 15))
	got, ok := decodeTxn(answer)
	if !ok || got.succeeded || len(got.ranges) != 1 || !bytes.Equal(got.ranges[0].kv.value, r.encode()) || got.ranges[0].kv.modRevision != 2 {
		f.Fatalf("got %+v %v", got, ok)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		decodeLease(b)
		if r, ok := decodeTxn(b); ok && (r.revision == 0 || len(r.ranges) > maxRanges) {
			t.Errorf("taken as an answer: %+v", r)
		}
		if r, ok := decodeRecord(b); ok && !bytes.Equal(r.encode(), b) {
			t.Errorf("%x was read, and %x written", b, r.encode())
		}
	})
}
