// Package cells reads the ledger's records from the host's shared data, and says in one way what may come of that: a record, none yet,
// bytes that are not ours, or no answer.
package cells

import "github.com/callonce/callonce/plugin/internal/ledger"

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

// Cells is the table, and who is told of foreign bytes.
type Cells struct {
	ledger.Table
	Foreign func(key string)
}

// Read gives a record and the cas to swap it with. What is Foreign is given to look at, and may not be written.
func (c *Cells) Read(key string, valid func([]byte) bool) (v []byte, cas uint32, st Status) {
	v, cas, found, err := c.Get(key)
	switch {
	case err != nil:
		return nil, 0, Failed
	case !found:
		return nil, ledger.InsertIfAbsent, Absent
	case !valid(v):
		c.Foreign(key)
		return v, 0, Foreign
	}
	return v, cas, Present
}
