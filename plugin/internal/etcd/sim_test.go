package etcd

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// cluster is etcd, simulated: revisions, transactions, and leases that end by a clock that the test holds. It reads requests with the
// wire reader of its own, and answers in etcd's form.
type cluster struct {
	now      ledger.Mono
	revision int64
	keys     map[string]*entry
	leases   map[int64]*grantedLease
	nextID   int64
	// wrote sees each change of a key, before it is made; nil = none before, or after.
	wrote func(key string, before, after *entry)
}

type entry struct {
	value               []byte
	create, mod, number int64
	lease               int64
}

type grantedLease struct {
	ttl  ledger.Mono
	ends ledger.Mono
}

func newCluster() *cluster {
	return &cluster{revision: 1, keys: map[string]*entry{}, leases: map[int64]*grantedLease{}, nextID: 7000}
}

// advance moves the clock and ends leases.
func (c *cluster) advance(to ledger.Mono) {
	c.now = to
	for id, l := range c.leases {
		if l.ends > c.now {
			continue
		}
		delete(c.leases, id)
		for _, k := range c.sorted() {
			if e := c.keys[k]; e.lease == id {
				c.revision++
				delete(c.keys, k)
			}
		}
	}
}

func (c *cluster) sorted() []string {
	var out []string
	for k := range c.keys {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

const (
	statusOK          = 0
	statusNotFound    = 5
	statusUnavailable = 14
)

// apply carries a request out.
func (c *cluster) apply(method string, request []byte) (status int, response []byte) {
	switch method {
	case MethodTxn:
		return c.txn(request)
	case MethodGrant:
		var ttl uint64
		eachField(request, func(n int, v uint64, _ []byte) bool { ttl = v; return true })
		c.nextID++
		d := ledger.Mono(ttl) * 1e9
		c.leases[c.nextID] = &grantedLease{d, c.now + d}
		return statusOK, appendNumber(appendNumber(c.header(), 2, uint64(c.nextID)), 3, ttl)
	case MethodKeepAlive:
		var id uint64
		eachField(request, func(n int, v uint64, _ []byte) bool { id = v; return true })
		out := appendNumber(c.header(), 2, id)
		if l := c.leases[int64(id)]; l != nil {
			l.ends = c.now + l.ttl
			out = appendNumber(out, 3, uint64(l.ttl/1e9))
		}
		return statusOK, out
	}
	panic(method)
}

func (c *cluster) header() []byte {
	return appendBytes(nil, 1, appendNumber(nil, 3, uint64(c.revision)))
}

type simOp struct {
	kind  int // as in RequestOp
	key   string
	value []byte
	lease int64
}

type simCompare struct {
	key    string
	target target
	how    result
	number int64
	value  []byte
}

type simTxn struct {
	compares        []simCompare
	then, otherwise []simOp
}

func decodeRequest(b []byte) (t simTxn) {
	op := func(m []byte) (o simOp) {
		eachField(m, func(n int, _ uint64, m []byte) bool {
			o.kind = n
			return eachField(m, func(n int, v uint64, m []byte) bool {
				switch n {
				case 1:
					o.key = string(m)
				case 2:
					o.value = bytes.Clone(m)
				case 3:
					o.lease = int64(v)
				}
				return true
			})
		})
		return o
	}
	ok := eachField(b, func(n int, _ uint64, m []byte) bool {
		switch n {
		case 1:
			var k simCompare
			eachField(m, func(n int, v uint64, m []byte) bool {
				switch n {
				case 1:
					k.how = result(v)
				case 2:
					k.target = target(v)
				case 3:
					k.key = string(m)
				case 4, 5, 6:
					k.number = int64(v)
				case 7:
					k.value = bytes.Clone(m)
				}
				return true
			})
			t.compares = append(t.compares, k)
		case 2:
			t.then = append(t.then, op(m))
		case 3:
			t.otherwise = append(t.otherwise, op(m))
		}
		return true
	})
	if !ok {
		panic("malformed request")
	}
	return t
}

func (c *cluster) txn(request []byte) (int, []byte) {
	t := decodeRequest(request)
	held := true
	for _, k := range t.compares {
		e := c.keys[k.key]
		if e == nil {
			e = &entry{}
		}
		var left int64
		switch k.target {
		case targetVersion:
			left = e.number
		case targetCreate:
			left = e.create
		case targetMod:
			left = e.mod
		case targetValue:
			held = held && c.keys[k.key] != nil && bytes.Equal(e.value, k.value)
			continue
		}
		held = held && (k.how == equal && left == k.number || k.how == greater && left > k.number)
	}
	ops := t.then
	if !held {
		ops = t.otherwise
	}
	for _, o := range ops {
		if o.kind == 2 && o.lease != 0 && c.leases[o.lease] == nil {
			return statusNotFound, nil
		}
	}
	var responses []byte
	changed := false
	for _, o := range ops {
		e := c.keys[o.key]
		var r []byte
		switch o.kind {
		case 1:
			var kv []byte
			if e != nil {
				m := appendNumber(appendNumber(appendString(nil, 1, o.key), 2, uint64(e.create)), 3, uint64(e.mod))
				m = appendBytes(appendNumber(m, 4, uint64(e.number)), 5, e.value)
				kv = appendBytes(kv, 2, appendNumber(m, 6, uint64(e.lease)))
			}
			r = appendBytes(nil, 1, kv)
		case 2:
			next := &entry{value: o.value, create: c.revision + 1, mod: c.revision + 1, number: 1, lease: o.lease}
			if e != nil {
				next.create, next.number = e.create, e.number+1
			}
			if c.wrote != nil {
				c.wrote(o.key, e, next)
			}
			c.keys[o.key], changed = next, true
			r = appendBytes(nil, 2, nil)
		case 3:
			if e != nil {
				if c.wrote != nil {
					c.wrote(o.key, e, nil)
				}
				delete(c.keys, o.key)
				changed = true
			}
			r = appendBytes(nil, 3, nil)
		}
		responses = appendBytes(responses, 3, r)
	}
	if changed {
		c.revision++
	}
	out := c.header()
	if held {
		out = appendNumber(out, 2, 1)
	}
	return statusOK, append(out, responses...)
}

// fault is a bug to plant between a store and etcd.
type fault func(method string, request []byte) (changed []byte, swallow bool)

// encode writes a transaction anew.
func (t *simTxn) encode() []byte {
	var x txn
	for _, k := range t.compares {
		if k.target == targetValue {
			x.compareValue(k.key, k.value)
		} else {
			x.compare(k.key, k.target, k.how, k.number)
		}
	}
	op := func(o simOp) []byte {
		switch o.kind {
		case 1:
			return opRange(o.key)
		case 2:
			return opPut(o.key, o.value, o.lease)
		}
		return opDelete(o.key)
	}
	for _, o := range t.then {
		x.then(op(o))
	}
	for _, o := range t.otherwise {
		x.otherwise(op(o))
	}
	return x.message()
}

func TestEncodeIsDecoded(t *testing.T) {
	var x txn
	x.compare("k", targetCreate, equal, 0)
	x.compare("h", targetVersion, greater, 0)
	x.compareValue("k", []byte("v"))
	x.then(opPut("k", []byte("v"), 5))
	x.then(opDelete("k"))
	x.otherwise(opRange("k"))
	got := decodeRequest(x.message())
	if !bytes.Equal(got.encode(), x.message()) || len(got.compares) != 3 || len(got.then) != 2 || len(got.otherwise) != 1 {
		t.Errorf("got %+v", got)
	}
	if !strings.Contains(fmt.Sprint(got.then[0]), "k") {
		t.Errorf("got %+v", got.then)
	}
}
