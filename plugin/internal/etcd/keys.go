package etcd

import (
	"strconv"
	"strings"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

var _ ledger.Keys = (*Store)(nil)

// MethodRange reads many keys at once.
const MethodRange = "Range"

// mostHolders bounds the workers that are asked for. Where there are more, calls in flight are shown as such, whoever holds them.
const mostHolders = 4096

// listed is a record as a page found it.
type listed struct {
	key      string
	record   record
	revision int64
	row      ledger.Row
}

// List implements ledger.Keys. Pages go by the stored ids; one ends at the first eight bytes of the last that it has.
func (s *Store) List(t ledger.Token, q ledger.Query) (ledger.Page, bool) {
	if _, ok := readOperation(q.From); q.From != "" && !ok {
		return ledger.Page{}, true
	}
	ok := s.page(q, func(found []listed, p ledger.Page) {
		for i := range found {
			p.Rows = append(p.Rows, found[i].row)
		}
		s.sink().Listed(t, p)
	})
	return ledger.Page{Failed: !ok}, !ok
}

func (s *Store) sink() ledger.KeysSink { return s.env.Sink.(ledger.KeysSink) }

// page reads a page: the records, and the workers that live where some are in flight. It is false where nothing was sent.
func (s *Store) page(q ledger.Query, done func([]listed, ledger.Page)) bool {
	begin := s.opts.Prefix + "k/"
	end := s.opts.Prefix + "k0" // 0 follows the slash
	switch {
	case q.Operation != 0:
		begin += operationText(q.Operation)
		end = begin + "g" // what follows is hex
	case q.From != "":
		begin += q.From + "g"
	}
	limit := s.opts.Page
	if limit <= 0 {
		limit = 32
	}
	return s.scan(begin, end, limit, false, func(kvs []keyValue, more, ok bool) {
		if !ok {
			done(nil, ledger.Page{Failed: true})
			return
		}
		var p ledger.Page
		var found []listed
		inFlight := false
		for _, kv := range kvs {
			operation, isKey := s.operationOf(kv.key)
			r, readable := decodeRecord(kv.value)
			if !isKey || !readable {
				p.Hidden++
				continue
			}
			l := listed{string(kv.key), r, kv.modRevision, s.rowOf(operation, &r)}
			l.record.reply.Message = nil // it lies in memory that the proxy lent
			if inFlight = inFlight || r.state == ledger.InFlight; r.policy == q.Policy {
				found = append(found, l)
			}
		}
		if more && len(kvs) > 0 {
			if operation, ok := s.operationOf(kvs[len(kvs)-1].key); ok {
				p.Next = operationText(operation)
			}
		}
		give := func() {
			fit := found[:0]
			for _, l := range found {
				if q.Fits(&l.row, s.env.Now()) {
					fit = append(fit, l)
				}
			}
			done(fit, p)
		}
		if !inFlight {
			give()
			return
		}
		prefix := s.opts.Prefix + "h"
		sent := s.scan(prefix+"/", prefix+"0", mostHolders, true, func(kvs []keyValue, more, ok bool) {
			if !ok {
				done(nil, ledger.Page{Failed: true})
				return
			}
			alive := map[string]bool{}
			for _, kv := range kvs {
				alive[string(kv.key)] = true
			}
			for i := range found {
				if l := &found[i]; l.record.state == ledger.InFlight && !more && !alive[s.holderKey(l.record.holder)] {
					l.row.State, _ = state.Next(ledger.InFlight, ledger.LoseLease)
					l.row.Why = ledger.Why{Cause: ledger.HolderLost}
				}
			}
			give()
		})
		if !sent {
			done(nil, ledger.Page{Failed: true})
		}
	})
}

func (s *Store) rowOf(operation uint64, r *record) ledger.Row {
	p := s.prior(r)
	return ledger.Row{
		Operation: operation, State: r.state, Tool: r.tool, Scope: r.scope, Attempt: r.attempt, Claimed: p.Claimed, Settled: p.Settled,
		Why: r.why, Elsewhere: r.reply.Elsewhere, Held: r.held,
	}
}

// Resolve implements ledger.Keys: it reads the record, and writes it if nobody has meanwhile.
func (s *Store) Resolve(t ledger.Token, q ledger.Query, ev ledger.Event) (ledger.Resolution, bool) {
	if q.Operation == 0 {
		return ledger.Resolution{}, true // it would be the first key that there is
	}
	q = ledger.Query{Policy: q.Policy, Operation: q.Operation, Mine: q.Mine}
	ok := s.page(q, func(found []listed, p ledger.Page) {
		if p.Failed || len(found) == 0 {
			s.sink().Resolved(t, ledger.Resolution{Failed: p.Failed})
			return
		}
		s.resolve(t, &found[0], ev)
	})
	return ledger.Resolution{Failed: !ok}, !ok
}

func (s *Store) resolve(t ledger.Token, l *listed, ev ledger.Event) {
	give := func(done, failed bool) {
		s.sink().Resolved(t, ledger.Resolution{Found: true, Done: done, Failed: failed, Row: l.row})
	}
	to, takes := state.Turn(l.row.State, ev)
	if !takes {
		give(false, false)
		return
	}
	var x txn
	x.compare(l.key, targetMod, equal, l.revision)
	if l.record.state == ledger.InFlight {
		x.compare(s.holderKey(l.record.holder), targetVersion, equal, 0)
	}
	if to.Next == ledger.Free {
		x.then(opDelete(l.key))
	} else {
		r := l.record
		r.state, r.settled, r.why = to.Next, s.wall(), l.row.Why
		r.reply = ledger.Reply{Elsewhere: ev == ledger.ResolveCompleted}
		r.held = ev == ledger.ResolveRefused
		lease := s.longestKept()
		if lease == 0 {
			give(false, true)
			return
		}
		x.then(opPut(l.key, r.encode(), lease))
	}
	// One that changed meanwhile is not what the operator has looked into.
	if !s.txn(&x, func(r *txnResponse) { give(r != nil && r.succeeded, r == nil) }) {
		give(false, true)
	}
}

// longestKept is the lease of the longest ttl, which a record does not say; 0 where there is none.
func (s *Store) longestKept() int64 {
	longest, id := int64(-1), int64(0)
	for _, ttl := range s.opts.TTLs {
		if kept := s.keptFor(ttl); kept != 0 && int64(ttl) > longest {
			longest, id = int64(ttl), kept
		}
	}
	return id
}

// At implements ledger.Keys: an id's first bytes say where it lies.
func (s *Store) At(*[32]byte) string { return "" }

// scan reads keys in their order. It is false where nothing was sent.
func (s *Store) scan(begin, end string, limit int, keysOnly bool, done func(kvs []keyValue, more, ok bool)) bool {
	m := appendString(appendString(nil, 1, begin), 2, end)
	m = appendNumber(m, 3, uint64(limit))
	if keysOnly {
		m = appendNumber(m, 8, 1)
	}
	return s.call(ServiceKV, MethodRange, m, s.opts.Timeout, func(status int, message []byte) {
		if status != 0 {
			done(nil, false, false)
			return
		}
		kvs, more, ok := decodeMany(message, limit)
		if !ok {
			s.failed(Unreadable)
		}
		done(kvs, more, ok)
	})
}

// decodeMany reads a RangeResponse of at most limit keys.
func decodeMany(b []byte, limit int) (kvs []keyValue, more, ok bool) {
	revision := int64(0)
	ok = eachField(b, func(n int, v uint64, m []byte) bool {
		switch {
		case n == 1 && m != nil:
			return decodeHeader(m, &revision)
		case n == 3 && m == nil:
			more = v != 0
		case n == 2 && m != nil:
			if len(kvs) == limit {
				return false
			}
			r, ok := decodeRange(appendBytes(nil, 2, m))
			kvs = append(kvs, r.kv)
			return ok
		}
		return true
	})
	return kvs, more, ok && revision > 0
}

// operationOf reads the first eight bytes of the stored id in a key.
func (s *Store) operationOf(key []byte) (uint64, bool) {
	id, ok := strings.CutPrefix(string(key), s.opts.Prefix+"k/")
	if !ok || len(id) != 64 {
		return 0, false
	}
	return readOperation(id[:16])
}

func readOperation(text string) (uint64, bool) {
	if len(text) != 16 || strings.Trim(text, "0123456789abcdef") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 16, 64)
	return n, err == nil
}

func operationText(n uint64) string {
	var b [8]byte
	for i := range b {
		b[i] = byte(n >> (56 - 8*i))
	}
	return hexOf(b[:])
}
