package shared

import (
	"encoding/binary"
	"strconv"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

var _ ledger.Keys = (*Shared)(nil)

// pageBuckets is the most buckets that one page looks at: what a tick of the sweep looks at too.
const pageBuckets = 512

// List implements ledger.Keys. It writes nothing: what would become of an entry at the next claim is shown as if it had.
func (s *Shared) List(_ ledger.Token, q ledger.Query) (ledger.Page, bool) {
	first, ok := s.bucketAt(q.From)
	if !ok {
		return ledger.Page{}, true
	}
	end := min(first+pageBuckets, s.layout.Buckets)
	if q.Only {
		end = first + 1
	}
	var p ledger.Page
	now := s.env.Now()
	defer s.rest()
	s.listing = true
	for n := first; n < end; n++ {
		b := s.buckets.Read(n)
		switch b.Status {
		case record.Failed:
			p.Failed = true
			return p, true
		case record.Foreign:
			p.Hidden++
			continue
		}
		b.Bucket.Each(func(w record.Entry) bool {
			e := record.Current(w)
			switch {
			case expired(e, now):
			case !e.Readable():
				p.Hidden++
			default:
				if r := s.row(e, n, now); e.Policy() == q.Policy && q.Fits(&r, now) {
					p.Rows = append(p.Rows, r)
				}
			}
			return true
		})
		if q.Most > 0 && len(p.Rows) >= q.Most {
			end = n + 1
		}
	}
	if end < s.layout.Buckets && !q.Only {
		p.Next = strconv.Itoa(end)
	}
	return p, true
}

// Resolve implements ledger.Keys: read, decide, swap, return, as every settlement. The query must say where the entry lies.
func (s *Shared) Resolve(_ ledger.Token, q ledger.Query, ev ledger.Event) (r ledger.Resolution, now bool) {
	n, ok := s.bucketAt(q.From)
	if !ok || q.From == "" {
		return r, true
	}
	for range record.MaxTries {
		b := s.buckets.Read(n)
		if !b.OK() {
			r.Failed = true
			return r, true
		}
		now := s.env.Now()
		e := find(b.Bucket, &q, now)
		if e == nil {
			return ledger.Resolution{}, true
		}
		if s.orphanedEntry(e, now) {
			b.Entry = e
			if !s.expireLease(&b, now) {
				r.Failed = true
				return r, true
			}
			continue
		}
		r.Found, r.Row = true, s.row(e, n, now)
		to, takes := state.Turn(e.State(), ev)
		if !takes {
			return r, true
		}
		id := e.ID()
		if to.Next == ledger.Free {
			s.buf = record.AppendWithout(s.buf[:0], b.Bucket, &id)
		} else {
			k := record.Stored{Flags: resolvedFlags(ev)}
			s.buf = record.AppendSettled(s.buf[:0], b.Bucket, e, turned(e, to.Next, now, e.Why()), &k)
		}
		rows := rowsOf(e)
		switch won, err := s.buckets.Swap(&b, s.buf); {
		case err != nil:
			r.Failed = true
			return r, true
		case won:
			s.quota.Return(&rows, to.Return, nil, b.Epoch)
			r.Done = true
			return r, true
		}
	}
	r.Failed = true
	return r, true
}

func resolvedFlags(ev ledger.Event) byte {
	switch ev {
	case ledger.ResolveCompleted:
		return record.FlagElsewhere
	case ledger.ResolveRefused:
		return record.FlagHeld
	}
	return 0
}

func (s *Shared) bucketAt(from string) (n int, ok bool) {
	if from == "" {
		return 0, true
	}
	n, err := strconv.Atoi(from)
	return n, err == nil && n >= 0 && n < s.layout.Buckets
}

// find gives the entry of a policy and an operation; nil for none.
func find(b record.Bucket, q *ledger.Query, now ledger.Mono) (found record.Entry) {
	b.Each(func(w record.Entry) bool {
		if e := record.Current(w); !expired(e, now) && e.Readable() && e.Policy() == q.Policy && operationOf(e) == q.Operation && (q.Mine == nil || q.Mine(e.Tool())) {
			found = e
		}
		return found == nil
	})
	return found
}

func operationOf(e record.Entry) uint64 {
	id := e.ID()
	return binary.BigEndian.Uint64(id[:])
}

func (s *Shared) orphanedEntry(e record.Entry, now ledger.Mono) bool {
	return e.State() == ledger.InFlight && s.orphaned(e, now)
}

func (s *Shared) row(e record.Entry, bucket int, now ledger.Mono) ledger.Row {
	r := ledger.Row{
		Operation: operationOf(e), At: strconv.Itoa(bucket), State: e.State(), Tool: e.Tool(), Scope: e.Scope(), Attempt: e.Attempt(),
		Claimed: e.Claimed(), Settled: e.Settled(), Why: e.Why(),
		Elsewhere: e.Flags()&record.FlagElsewhere != 0, Held: e.Flags()&record.FlagHeld != 0,
	}
	if state.Timed(r.State) {
		r.Expires = e.ExpiresAt()
	}
	if s.orphanedEntry(e, now) {
		r.State, r.Why = ledger.Unknown, ledger.Why{Cause: ledger.HolderLost}
	}
	return r
}

// At is where the entry of an id lies, as Row.At says it.
func (s *Shared) At(id *[32]byte) string { return strconv.Itoa(s.buckets.Of(id)) }
