package etcd

import (
	"bytes"
	"testing"

	"github.com/callonce/callonce/plugin/internal/etcd/etcdsim"
)

// What is written is read, and written again, by the simulation's own code.
func TestEncodeIsDecoded(t *testing.T) {
	var x txn
	x.compare("k", targetCreate, equal, 0)
	x.compare("h", targetVersion, greater, 0)
	x.compareValue("k", []byte("v"))
	x.then(opPut("k", []byte("v"), 5))
	x.then(opDelete("k"))
	x.otherwise(opRange("k"))
	got := etcdsim.ReadTxn(x.message())
	if !bytes.Equal(got.Encode(), x.message()) || len(got.Compares) != 3 || len(got.Then) != 2 || len(got.Otherwise) != 1 || got.Then[0].Key != "k" {
		t.Errorf("got %+v", got)
	}
}
