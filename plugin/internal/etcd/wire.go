package etcd

// The messages of etcd's etcdserverpb (rpc.proto) and mvccpb (kv.proto) of which this package has need, as far as it has need of
// them. Field numbers are those of the .proto files.

// The methods, as gRPC names them: service and method.
const (
	ServiceKV    = "etcdserverpb.KV"
	ServiceLease = "etcdserverpb.Lease"

	MethodTxn       = "Txn"
	MethodGrant     = "LeaseGrant"
	MethodKeepAlive = "LeaseKeepAlive" // a stream; one message and its end are a unary call
)

// target is what a comparison looks at.
type target uint64

const (
	targetVersion target = iota
	targetCreate
	targetMod
	targetValue
)

// result is how it compares.
type result uint64

const (
	equal result = iota
	greater
)

// txn is a transaction as it is built: three lists of encoded members.
type txn struct {
	compares, success, failure []byte
	puts                       bool // if the comparisons hold
}

// compare adds a comparison with a number.
func (t *txn) compare(key string, what target, how result, number int64) {
	m := compareHead(key, what, how)
	m = appendTag(m, 4+int(what), wireVarint) // version 4, create_revision 5, mod_revision 6: one of them is always written
	m = appendVarint(m, uint64(number))
	t.compares = appendBytes(t.compares, 1, m)
}

// compareValue adds a comparison of a key's whole value.
func (t *txn) compareValue(key string, value []byte) {
	t.compares = appendBytes(t.compares, 1, appendBytes(compareHead(key, targetValue, equal), 7, value))
}

func compareHead(key string, what target, how result) []byte {
	m := appendNumber(make([]byte, 0, len(key)+24), 1, uint64(how))
	m = appendNumber(m, 2, uint64(what))
	return appendString(m, 3, key)
}

// The operations of both branches.

const opPutTag = 2<<3 | wireBytes

func opPut(key string, value []byte, lease int64) []byte {
	m := appendString(make([]byte, 0, len(key)+len(value)+24), 1, key)
	if len(value) > 0 {
		m = appendBytes(m, 2, value)
	}
	m = appendNumber(m, 3, uint64(lease))
	return appendBytes(nil, 2, m)
}

func opRange(key string) []byte { return appendBytes(nil, 1, appendString(nil, 1, key)) }

func opDelete(key string) []byte { return appendBytes(nil, 3, appendString(nil, 1, key)) }

func (t *txn) then(op []byte) {
	t.success = appendBytes(t.success, 2, op)
	t.puts = t.puts || op[0] == opPutTag
}

func (t *txn) otherwise(op []byte) { t.failure = appendBytes(t.failure, 3, op) }

// message is the TxnRequest.
func (t *txn) message() []byte {
	return append(append(append(make([]byte, 0, len(t.compares)+len(t.success)+len(t.failure)), t.compares...), t.success...), t.failure...)
}

// grantRequest asks for a lease of so many seconds, with an id of etcd's choice.
func grantRequest(seconds int64) []byte { return appendNumber(nil, 1, uint64(seconds)) }

func keepAliveRequest(lease int64) []byte { return appendNumber(nil, 1, uint64(lease)) }

// keyValue is a key as a range finds it.
type keyValue struct {
	key, value  []byte
	modRevision int64
}

// txnResponse is what a transaction answers: whether its comparisons held, the revision of the store after it, and for each range of the
// branch taken, in order, what it found.
type txnResponse struct {
	succeeded bool
	revision  int64
	ranges    []rangeResponse
}

// rangeResponse is nothing, or one key.
type rangeResponse struct {
	found bool
	kv    keyValue
}

// maxRanges bounds the answer: no transaction here has more.
const maxRanges = 4

func decodeTxn(b []byte) (r txnResponse, ok bool) {
	ok = eachField(b, func(n int, v uint64, m []byte) bool {
		switch {
		case n == 1 && m != nil:
			return decodeHeader(m, &r.revision)
		case n == 2 && m == nil:
			r.succeeded = v != 0
		case n == 3 && m != nil:
			return eachField(m, func(n int, _ uint64, m []byte) bool {
				if n != 1 {
					return true // of a put or a delete nothing matters
				}
				if m == nil || len(r.ranges) == maxRanges {
					return false
				}
				got, ok := decodeRange(m)
				r.ranges = append(r.ranges, got)
				return ok
			})
		}
		return true
	})
	// A store has a revision of 1 at least: an answer without one is none of etcd's.
	return r, ok && r.revision > 0
}

func decodeHeader(b []byte, revision *int64) bool {
	return eachField(b, func(n int, v uint64, m []byte) bool {
		if n == 3 && m == nil {
			*revision = int64(v)
		}
		return true
	})
}

func decodeRange(b []byte) (r rangeResponse, ok bool) {
	ok = eachField(b, func(n int, _ uint64, m []byte) bool {
		if n != 2 {
			return true
		}
		if m == nil || r.found {
			return false // one key was asked for
		}
		r.found = true
		return eachField(m, func(n int, v uint64, m []byte) bool {
			switch {
			case n == 1 && m != nil:
				r.kv.key = m
			case n == 3 && m == nil:
				r.kv.modRevision = int64(v)
			case n == 5 && m != nil:
				r.kv.value = m
			}
			return true
		})
	})
	return r, ok
}

// leaseResponse is what a grant and a sign of life answer.
type leaseResponse struct {
	id  int64
	ttl int64 // seconds; 0 = there is no such lease
}

func decodeLease(b []byte) (r leaseResponse, ok bool) {
	ok = eachField(b, func(n int, v uint64, m []byte) bool {
		switch {
		case n == 2 && m == nil:
			r.id = int64(v)
		case n == 3 && m == nil:
			r.ttl = int64(v)
		case n == 4 && m != nil:
			return len(m) == 0 // an error, in words
		}
		return true
	})
	return r, ok
}
