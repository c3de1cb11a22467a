package etcd

import (
	"maps"
	"slices"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// grant is a claim that was won, until its stream has gone and etcd has taken the last word on it.
type grant struct {
	ledger.Lease
	key      string
	record   record
	revision int64        // of the record as we wrote it last
	state    ledger.State // of it
	settled  bool         // there was a word on it
	words    []ledger.Outcome
	trying   bool // the first of words is on its way
	fenced   bool
	gone     bool         // its stream has gone
	local    ledger.Lease // what counts it in this proxy
	counted  bool
}

// mostReply bounds a message that is kept, in bytes: etcd takes no request above 1.5 MiB, unless it is told to.
const mostReply = 1 << 20

// worthTrying is the size up to which a reply that etcd refuses was not refused for its size.
const worthTrying = 64 << 10

// Settle implements ledger.Store. It is Pending as long as etcd has not answered; what then turns out to be fenced is counted.
func (s *Store) Settle(h ledger.Lease, o ledger.Outcome) ledger.Settled {
	held := s.grants[h.Fence]
	if held == nil || held.ID != h.ID || held.fenced {
		return ledger.Fenced
	}
	st := held.state
	for _, w := range held.words {
		st, _ = state.Next(st, w.Event)
	}
	if _, ok := state.Next(st, o.Event); !ok || o.Event >= ledger.NumHolderEvents {
		return ledger.Fenced
	}
	held.settled = true
	done := ledger.Pending
	if o.Event == ledger.Complete && len(o.Reply.Message) > mostReply {
		o = ledger.Outcome{Event: ledger.MarkNotReplayable, Why: o.Why}
		done |= ledger.Unkept
	}
	if held.counted {
		s.env.Local.Settle(held.local, ledger.Outcome{Event: o.Event, Reply: ledger.Reply{Status: o.Reply.Status}})
	}
	o.Reply.Message = slices.Clone(o.Reply.Message)
	held.words = append(held.words, o)
	s.try(held)
	return done
}

// drop forgets a grant once nothing is left to say.
func (s *Store) drop(h *grant) {
	h.gone = true
	if len(h.words) == 0 {
		delete(s.grants, h.Fence)
	}
}

// try sends the next word on a grant, with the same comparison each time: applied twice, it is applied once.
func (s *Store) try(h *grant) {
	if h.trying || len(h.words) == 0 {
		return
	}
	w := &h.words[0]
	next, _ := state.Next(h.state, w.Event)
	r := h.record
	r.state, r.settled, r.reply, r.why = next, s.wall(), ledger.Reply{}, w.Why
	var x txn
	x.compare(h.key, targetMod, equal, h.revision)
	if next == ledger.Free {
		x.then(opDelete(h.key))
	} else {
		if w.Event == ledger.Complete {
			r.reply = w.Reply
		}
		lease := s.keptFor(lasting(h.Terms))
		if lease == 0 {
			return // the tick gets one, and tries again
		}
		x.then(opPut(h.key, r.encode(), lease))
	}
	x.otherwise(opRange(h.key))
	h.trying = s.txnStatus(&x, s.opts.Timeout, func(status int, got *txnResponse) {
		if status == grpcInvalid && len(r.reply.Message) > worthTrying {
			// etcd takes less than we thought. What cannot be kept cannot be replayed.
			h.words[0] = ledger.Outcome{Event: ledger.MarkNotReplayable, Why: h.words[0].Why}
		}
		s.applied(h, next, got)
	})
}

// applied takes etcd's answer to a word.
func (s *Store) applied(h *grant, next ledger.State, r *txnResponse) {
	h.trying = false
	var found rangeResponse
	if r != nil && len(r.ranges) == 1 {
		found = r.ranges[0]
	}
	switch {
	case r == nil:
		return // tried again at the next tick
	case r.succeeded:
		h.revision = r.revision
	case next == ledger.Free && !found.found:
		// Gone already: by an answer that was lost.
	case next != ledger.Free && found.found && s.ours(h, next, found):
		h.revision = found.kv.modRevision
	default:
		if event := h.words[0].Event; event != ledger.Release {
			s.tell(ledger.LateFenced, h.Policy)
		}
		h.fenced, h.words = true, nil
	}
	h.state = next
	if len(h.words) > 0 {
		if s.env.Late != nil && !h.Root {
			s.env.Late(h.Policy, h.words[0].Event)
		}
		h.words = h.words[1:]
	}
	if s.env.Taken != nil {
		s.env.Taken(h.ID)
	}
	switch {
	case len(h.words) > 0:
		s.try(h)
	case h.gone:
		delete(s.grants, h.Fence)
	}
}

// ours says that a record is what this grant wanted to write: a try before was applied, and its answer lost.
func (s *Store) ours(h *grant, st ledger.State, r rangeResponse) bool {
	got, ok := decodeRecord(r.kv.value)
	return ok && got.nonce == h.record.nonce && got.state == st
}

// stray is a claim that may have been written though nobody knows: it is released by its value, which has a nonce, until etcd says that
// it is gone, and for as long after as the claim may still arrive.
type stray struct {
	key     string
	encoded []byte
	record  record
	ttl     time.Duration
	until   ledger.Mono
	trying  bool
	gone    bool
}

// stray notes a claim that may have been written.
func (s *Store) stray(key string, r *record, encoded []byte, ttl time.Duration) {
	if !slices.ContainsFunc(s.strays, func(b *stray) bool { return b.record.nonce == r.nonce }) {
		s.strays = append(s.strays, &stray{key: key, encoded: encoded, record: *r, ttl: ttl, until: s.env.Now() + lateFor(s.opts)})
	}
}

// lateFor bounds how late a claim that was given up may still be applied. etcd itself gives a request up after some 7 seconds.
func lateFor(o Options) ledger.Mono { return ledger.Mono(2*o.Lease + 2*o.Timeout + 10*time.Second) }

func (s *Store) release(b *stray) {
	if b.trying || s.releasing == mostRetried {
		return
	}
	var x txn
	x.compareValue(b.key, b.encoded)
	if b.record.attempt > 1 {
		// It took over an unknown outcome, which stays one.
		r := b.record
		r.state, r.settled = ledger.Unknown, s.wall()
		lease := s.keptFor(b.ttl)
		if lease == 0 {
			return
		}
		x.then(opPut(b.key, r.encode(), lease))
	} else {
		x.then(opDelete(b.key))
	}
	now := s.env.Now()
	b.trying = s.txn(&x, func(r *txnResponse) {
		b.trying = false
		s.releasing--
		// Applied once, a claim is not applied again. That it is not there may mean that it is not there yet.
		b.gone = r != nil && (r.succeeded || now >= b.until)
	})
	if b.trying {
		s.releasing++
	}
}

// mostRetried bounds what is sent again at once, of each kind: after an outage there may be much.
const mostRetried = 256

// retry does again what etcd has not answered.
func (s *Store) retry() {
	sent := 0
	for _, fence := range slices.Sorted(maps.Keys(s.grants)) {
		if len(s.grants[fence].words) == 0 {
			continue
		}
		if sent++; sent > mostRetried {
			break
		}
		s.try(s.grants[fence])
	}
	s.strays = slices.DeleteFunc(s.strays, func(b *stray) bool { return b.gone })
	for _, b := range s.strays {
		s.release(b)
	}
}
