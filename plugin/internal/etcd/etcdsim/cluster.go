// Package etcdsim is etcd as far as the ledger needs it: revisions, transactions, and leases that end by a clock that the test holds.
// It must not know what the records mean.
package etcdsim

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

// Cluster is a whole etcd. It is not for concurrent use.
type Cluster struct {
	Keys     map[string]*Entry
	Revision int64
	// Wrote sees each change of a key before it is made; nil = none before, or after. May be nil.
	Wrote func(key string, before, after *Entry)
	// Full is the alarm NOSPACE: nothing is put and no lease granted.
	Full bool
	// Denied is a role that was taken away.
	Denied bool
	// Leaderless says that nothing gets a quorum.
	Leaderless bool

	now    time.Duration
	leases map[int64]*lease
	// NextLease is the id of the lease that was granted last.
	NextLease int64
}

// Entry is what lies under a key.
type Entry struct {
	Value                []byte
	Create, Mod, Version int64
	Lease                int64
}

type lease struct{ ttl, ends time.Duration }

// New gives an empty cluster.
func New() *Cluster {
	return &Cluster{Revision: 1, Keys: map[string]*Entry{}, leases: map[int64]*lease{}, NextLease: 7000}
}

// Now is its time.
func (c *Cluster) Now() time.Duration { return c.now }

// Leases is how many there are.
func (c *Cluster) Leases() int { return len(c.leases) }

// Advance moves the clock on, and ends leases.
func (c *Cluster) Advance(to time.Duration) {
	c.now = max(c.now, to)
	for _, id := range slices.Sorted(maps.Keys(c.leases)) {
		if c.leases[id].ends > c.now {
			continue
		}
		delete(c.leases, id)
		for _, k := range slices.Sorted(maps.Keys(c.Keys)) {
			if c.Keys[k].Lease == id {
				c.Revision++
				delete(c.Keys, k)
			}
		}
	}
}

// NewLeader is what an election does to leases: each lasts for its whole time from now.
func (c *Cluster) NewLeader() {
	for _, l := range c.leases {
		l.ends = c.now + l.ttl
	}
}

// Status codes of gRPC.
const (
	OK          = 0
	NotFound    = 5
	Denied      = 7
	Exhausted   = 8
	Unknown     = 12
	Unavailable = 14
)

// Apply carries a request out, by the name of its method.
func (c *Cluster) Apply(method string, request []byte) (status int, response []byte) {
	switch {
	case c.Leaderless:
		return Unavailable, nil
	case c.Denied && method != "LeaseKeepAlive":
		return Denied, nil
	}
	switch method {
	case "Txn":
		return c.txn(ReadTxn(request))
	case "Range":
		return OK, c.many(request)
	case "LeaseGrant":
		if c.Full {
			return Exhausted, nil
		}
		var ttl uint64
		fields(request, func(_ int, v uint64, _ []byte) { ttl = v })
		c.NextLease++
		d := time.Duration(ttl) * time.Second
		c.leases[c.NextLease] = &lease{d, c.now + d}
		return OK, number(number(c.header(), 2, uint64(c.NextLease)), 3, ttl)
	case "LeaseKeepAlive":
		var id uint64
		fields(request, func(_ int, v uint64, _ []byte) { id = v })
		out := number(c.header(), 2, id)
		if l := c.leases[int64(id)]; l != nil {
			l.ends = c.now + l.ttl
			out = number(out, 3, uint64(l.ttl/time.Second))
		}
		return OK, out
	}
	return Unknown, nil
}

func (c *Cluster) header() []byte { return data(nil, 1, number(nil, 3, uint64(c.Revision))) }

func (c *Cluster) holds(k Compare) bool {
	e := c.Keys[k.Key]
	if e == nil {
		e = &Entry{}
	}
	left := map[int]int64{Version: e.Version, Create: e.Create, Mod: e.Mod}[k.Target]
	switch {
	case k.Target == Value:
		return c.Keys[k.Key] != nil && bytes.Equal(e.Value, k.Value)
	case k.Greater:
		return left > k.Number
	}
	return left == k.Number
}

func (c *Cluster) txn(t Txn) (int, []byte) {
	succeeded := true
	for _, k := range t.Compares {
		succeeded = succeeded && c.holds(k)
	}
	ops := t.Then
	if !succeeded {
		ops = t.Otherwise
	}
	for _, o := range ops {
		switch {
		case o.Kind == Put && c.Full:
			return Exhausted, nil
		case o.Kind == Put && o.Lease != 0 && c.leases[o.Lease] == nil:
			return NotFound, nil
		}
	}
	var responses []byte
	changed := false
	for _, o := range ops {
		response, wrote := c.op(o)
		responses, changed = data(responses, 3, response), changed || wrote
	}
	if changed {
		c.Revision++
	}
	out := c.header()
	if succeeded {
		out = number(out, 2, 1)
	}
	return OK, append(out, responses...)
}

func (c *Cluster) op(o Op) (response []byte, changed bool) {
	e := c.Keys[o.Key]
	change := func(next *Entry) {
		if c.Wrote != nil {
			c.Wrote(o.Key, e, next)
		}
	}
	switch o.Kind {
	case Put:
		next := &Entry{Value: o.Value, Create: c.Revision + 1, Mod: c.Revision + 1, Version: 1, Lease: o.Lease}
		if e != nil {
			next.Create, next.Version = e.Create, e.Version+1
		}
		change(next)
		c.Keys[o.Key] = next
		return data(nil, 2, nil), true
	case Delete:
		if e != nil {
			change(nil)
			delete(c.Keys, o.Key)
		}
		return data(nil, 3, nil), e != nil
	}
	var found []byte
	if e != nil {
		found = data(nil, 2, e.keyValue(o.Key, false))
	}
	return data(nil, 1, found), false
}

func (e *Entry) keyValue(key string, keyOnly bool) []byte {
	m := number(number(data(nil, 1, []byte(key)), 2, uint64(e.Create)), 3, uint64(e.Mod))
	m = number(m, 4, uint64(e.Version))
	if !keyOnly {
		m = data(m, 5, e.Value)
	}
	return number(m, 6, uint64(e.Lease))
}

// many answers a RangeRequest of a range of keys.
func (c *Cluster) many(request []byte) []byte {
	var begin, end string
	var limit, keysOnly uint64
	fields(request, func(n int, v uint64, m []byte) {
		switch n {
		case 1:
			begin = string(m)
		case 2:
			end = string(m)
		case 3:
			limit = v
		case 8:
			keysOnly = v
		}
	})
	out, found := c.header(), uint64(0)
	for _, key := range slices.Sorted(maps.Keys(c.Keys)) {
		switch {
		case key < begin || key >= end:
		case found == limit:
			return number(out, 3, 1)
		default:
			found++
			out = data(out, 2, c.Keys[key].keyValue(key, keysOnly != 0))
		}
	}
	return out
}
