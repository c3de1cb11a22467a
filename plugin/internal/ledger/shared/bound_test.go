package shared

import (
	"flag"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

var million = flag.Bool("million", false, "a million distinct keys instead of 30,000, in the real layout")

// Case 29: distinct keys for ever; keys and bytes of the table stay flat, within what
// Most states.
func TestDistinctKeys(t *testing.T) {
	layout, total := Layout{Buckets: 64, Ways: 64, PieceBytes: 256, Pages: 8, Holders: 16, SweepSteps: 40}, 30_000
	limits := ledger.Limits{
		Entries: 1000, EntriesPerPrincipal: 1000, EntriesPerScope: 1000,
		InFlight: 50, InFlightPerPrincipal: 50, InFlightPerScope: 50, TombstonesPerScope: 50,
	}
	budget := ledger.Budget{Ring: 0, Bytes: 32 << 10}
	if *million {
		layout, total = DefaultLayout, 1_000_000
		limits, budget = usual(), ledger.Budget{Bytes: 64 << 20}
		limits.OnFullEvict = true
	}
	w := newWorld(1, layout, 2)
	w.watch = nil
	wantKeys, wantBytes := layout.Most("test", []Quota{{limits, budget, 32 << 10}})
	var plateau int
	var flat int64
	refused := 0
	for n := range total {
		k := w.worker[n%2]
		c := claimOf(n)
		c.Limits, c.Budget, c.Terms.TTL = limits, budget, 5*time.Second
		c.Scope, c.Principal = uint64(n%500), uint64(n%500/5)
		k.tokens++
		a, _ := k.store.Ask(ledger.Token{Stream: uint32(k.n), Generation: k.tokens}, c)
		switch {
		case a.Verdict != ledger.First:
			refused++
		case n%10 == 0:
			k.store.Settle(a.Lease, ledger.Outcome{Event: ledger.Event(1 + n/10%3)})
		default:
			k.store.Settle(a.Lease, ledger.Outcome{Event: ledger.Complete, Reply: message(&a.Lease, 50+n%700)})
		}
		if n%(limits.Entries/10) == 0 {
			w.pass(time.Second)
		}
		if n%(total/20) != 0 || n < total/4 {
			continue
		}
		keys, bytes := w.size()
		if keys > wantKeys || bytes > wantBytes {
			t.Fatalf("after %d keys: %d records of %d bytes; stated %d and %d", n, keys, bytes, wantKeys, wantBytes)
		}
		if plateau == 0 {
			plateau, flat = keys, bytes
		}
		if n > total/2 && (keys > plateau+plateau/50 || bytes > flat+flat/5) && !*million {
			t.Errorf("after %d keys: %d records of %d bytes; after a quarter of them %d and %d", n, keys, bytes, plateau, flat)
		}
		if *million {
			t.Logf("after %7d keys: %d records, %d bytes", n, keys, bytes)
		}
	}
	keys, bytes := w.size()
	t.Logf("%d distinct keys, %d refused: %d records, %d bytes; stated at most %d and %d", total, refused, keys, bytes, wantKeys, wantBytes)
	if refused > total/100 {
		t.Errorf("%d claims were refused", refused)
	}
}

// The stated maximum is reached by nothing less than what is allowed: a table filled
// to its limits stays under it, and is not far from it.
func TestMostIsNotExceeded(t *testing.T) {
	layout := Layout{Buckets: 16, Ways: 64, PieceBytes: 64, Pages: 4, Holders: 4, SweepSteps: 50}
	limits := ledger.Limits{
		Entries: 400, EntriesPerPrincipal: 400, EntriesPerScope: 400,
		InFlight: 400, InFlightPerPrincipal: 400, InFlightPerScope: 400, TombstonesPerScope: 400,
	}
	budget := ledger.Budget{Bytes: 100 * 64}
	w := newWorld(1, layout, 1)
	w.watch = nil
	for n := range 600 {
		c := claimOf(n)
		c.Limits, c.Budget = limits, budget
		c.Scope, c.Principal = uint64(n), uint64(n)
		a, _ := w.worker[0].store.Ask(ledger.Token{}, c)
		if (a.Verdict == ledger.First) != (n < 400) {
			t.Fatalf("key %d: %d", n, a.Verdict)
		}
		if n < 200 {
			w.worker[0].store.Settle(a.Lease, ledger.Outcome{Event: ledger.Complete, Reply: message(&a.Lease, 64)})
		}
	}
	for n := range 30_000 {
		w.worker[0].store.Cancel(ledger.Cancellation{Scope: uint64(200 + n%200), Request: uint64(n)})
	}
	for range 10 {
		w.pass(time.Second)
	}
	keys, bytes := w.size()
	mostKeys, most := layout.Most("test", []Quota{{limits, budget, 64}})
	if keys > mostKeys || bytes > most {
		t.Errorf("%d records of %d bytes, stated at most %d and %d", keys, bytes, mostKeys, most)
	}
	if bytes < most/2 {
		t.Errorf("%d bytes in a full table, stated at most %d: the statement says nothing", bytes, most)
	}
	t.Logf("full: %d records of %d bytes, stated at most %d and %d", keys, bytes, mostKeys, most)
	k, b := DefaultLayout.Most("prod", []Quota{{usual(), ledger.Budget{Bytes: 64 << 20}, 32 << 10}})
	t.Logf("one policy of default limits: at most %d records of %d bytes", k, b)
}
