package shared

import (
	"testing"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
)

// Issue 10, point 20: what a tick looks at grows with the open calls, not with their
// square; nor does the settlement of each look at all.
func TestTickIsLinearInOpenCalls(t *testing.T) {
	const calls = 16000
	w := newWorld(1, DefaultLayout, 1)
	w.watch = nil
	k := w.worker[0]
	asked := 0
	k.store.env.Live = func(ledger.Token) bool { asked++; return true }
	limits := usual()
	limits.InFlight, limits.InFlightPerPrincipal, limits.InFlightPerScope, limits.TombstonesPerScope = calls, calls, calls, calls
	limits.EntriesPerPrincipal, limits.EntriesPerScope = calls, calls
	var leases []ledger.Lease
	for n := range calls {
		c := claimOf(n)
		c.Limits = limits
		a, _ := k.store.Ask(ledger.Token{Generation: uint32(n)}, c)
		if a.Verdict != ledger.First {
			t.Fatalf("call %d: %d", n, a.Verdict)
		}
		leases = append(leases, a.Lease)
	}
	k.store.open.looked = 0
	for range DefaultLayout.Buckets/DefaultLayout.SweepSteps + 3 { // a whole pass, over all of them
		asked = 0
		before := k.store.open.looked
		w.now += 20e9 // the lease has passed: each call in flight is looked up
		k.tick()
		if looked := k.store.open.looked - before; looked > 2*calls || asked > calls {
			t.Fatalf("a tick looks at %d leases and asks for %d streams", looked, asked)
		}
	}
	if k.store.open.looked < calls {
		t.Errorf("a pass looked at %d leases: the calls were not looked up", k.store.open.looked)
	}
	// The table does not answer while they end: each waits, and is tried at each tick.
	w.fail = func(string) error { return errTable }
	k.store.open.looked = 0
	for i := range leases {
		if got := k.store.Settle(leases[i], ledger.Outcome{Event: ledger.MarkUnknown}); got != ledger.Pending {
			t.Fatalf("settled: %d", got)
		}
	}
	if k.store.open.looked > 4*calls || k.store.OpenLeases() != 0 {
		t.Errorf("%d settlements looked at %d leases, %d are left", calls, k.store.open.looked, k.store.OpenLeases())
	}
	k.tick()
	w.fail = nil
	k.tick()
	if n := len(k.store.pending); n != 0 {
		t.Errorf("%d settlements wait", n)
	}
}

// Few and many open leases are found the same, in whatever order they come and go.
func TestManyLeasesAreFound(t *testing.T) {
	var o opened
	is := map[int]bool{}
	lease := func(n int) *ledger.Lease { return &ledger.Lease{ID: idOf(n / 2), Fence: uint64(n)} } // two of each id
	check := func() {
		for n := range 400 {
			h := lease(n)
			p := o.get(&h.ID, h.Fence)
			if (p != nil) != is[n] || p != nil && (p.token.Generation != uint32(n) || p.lease.Fence != h.Fence) {
				t.Fatalf("of %d leases, lease %d: found %v, want %v", len(is), n, p, is[n])
			}
		}
	}
	for round, most := range []int{10, 400, 3, 200, 0} {
		for i := range 400 {
			n := int(record.Mix(uint64(1000*round+i)) % 400)
			switch {
			case len(is) < most && !is[n]:
				o.add(*lease(n), ledger.Token{Generation: uint32(n)})
				is[n] = true
			case len(is) > most && is[n]:
				h := lease(n)
				o.remove(&h.ID, h.Fence)
				delete(is, n)
			}
			if i%100 == 0 {
				check()
			}
		}
		for n := range 400 {
			if len(is) > most && is[n] {
				h := lease(n)
				o.remove(&h.ID, h.Fence)
				delete(is, n)
			}
		}
		check()
		if (o.at != nil) != (most > fewLeases) {
			t.Errorf("an index of %d leases: %v", len(is), o.at != nil)
		}
	}
}
