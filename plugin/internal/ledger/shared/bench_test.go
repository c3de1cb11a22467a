package shared

import (
	"fmt"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// filled is a table in the real layout with so many completed entries.
func filled(entries, principals int, complete bool) (*world, func(n int) ledger.Claim) {
	w := newWorld(1, DefaultLayout, 1)
	w.watch = nil
	limits := usual()
	limits.Entries, limits.EntriesPerPrincipal, limits.EntriesPerScope = 65536, 65536, 65536
	claim := func(n int) ledger.Claim {
		c := claimOf(n)
		c.Limits, c.Budget = limits, ledger.Budget{Bytes: 64 << 20}
		c.Principal, c.Scope = uint64(n%principals), uint64(n%principals)
		c.Terms.TTL = 24 * time.Hour
		return c
	}
	for n := range entries {
		a, _ := w.worker[0].store.Ask(ledger.Token{}, claim(n))
		if complete {
			w.worker[0].store.Settle(a.Lease, ledger.Outcome{Event: ledger.Complete, Reply: message(&a.Lease, 400)})
		}
	}
	// A pass, as there would have been.
	for range DefaultLayout.Buckets/DefaultLayout.SweepSteps + 3 {
		w.worker[0].tick()
	}
	w.gets, w.sets, w.getBytes, w.setBytes = 0, 0, 0, 0
	return w, claim
}

func (w *world) report(b *testing.B) {
	n := float64(b.N)
	b.ReportMetric(float64(w.gets)/n, "gets/op")
	b.ReportMetric(float64(w.sets)/n, "sets/op")
	b.ReportMetric(float64(w.getBytes)/n, "getB/op")
	b.ReportMetric(float64(w.setBytes)/n, "setB/op")
}

// A claim and its completion with a reply of 400 bytes, 200 a second, at a steady
// number of entries.
func BenchmarkAskSettle(b *testing.B) {
	for _, entries := range []int{32, 512, 4096, 16384} {
		for _, principals := range []int{1, 1000} {
			b.Run(fmt.Sprintf("entries=%d/principals=%d", entries, principals), func(b *testing.B) {
				if entries < principals {
					b.Skip()
				}
				w, claim := filled(entries, principals, true)
				k := w.worker[0]
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					c := claim(1_000_000 + i)
					c.Terms.TTL = 2 * time.Second
					a, _ := k.store.Ask(ledger.Token{}, c)
					if a.Verdict != ledger.First {
						b.Fatal(a.Verdict)
					}
					k.store.Settle(a.Lease, ledger.Outcome{Event: ledger.Complete, Reply: message(&a.Lease, 400)})
					if i%200 == 199 {
						// A second has passed. The sweep is not counted, what is given back is.
						w.now += ledger.Mono(time.Second)
						k.store.quota.ReturnCached(false)
						b.StopTimer()
						gets, sets, getBytes, setBytes := w.gets, w.sets, w.getBytes, w.setBytes
						k.tick()
						w.gets, w.sets, w.getBytes, w.setBytes = gets, sets, getBytes, setBytes
						b.StartTimer()
					}
				}
				w.report(b)
			})
		}
	}
}

// A replay, and a refusal of what is in flight.
func BenchmarkRepeat(b *testing.B) {
	for _, complete := range []bool{true, false} {
		b.Run(fmt.Sprintf("completed=%v", complete), func(b *testing.B) {
			w, claim := filled(300, 3, complete)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.worker[0].store.Ask(ledger.Token{}, claim(i%300))
			}
			w.report(b)
		})
	}
}

// One tick of the sweeper.
func BenchmarkTick(b *testing.B) {
	for _, entries := range []int{0, 16384} {
		b.Run(fmt.Sprintf("entries=%d", entries), func(b *testing.B) {
			w, _ := filled(entries, 1000, true)
			b.ReportAllocs()
			for b.Loop() {
				w.now += ledger.Mono(time.Millisecond)
				w.worker[0].tick()
			}
			w.report(b)
		})
	}
}

// A claim at a full policy that evicts its oldest entries.
func BenchmarkEvict(b *testing.B) {
	for _, entries := range []int{256, 4096} {
		b.Run(fmt.Sprintf("entries=%d", entries), func(b *testing.B) {
			w, claim := filled(entries, 8, true)
			k := w.worker[0]
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c := claim(1_000_000 + i)
				c.Limits.Entries, c.Limits.OnFullEvict = entries, true
				w.now += ledger.Mono(time.Millisecond)
				k.store.scans = scansPerTick
				a, _ := k.store.Ask(ledger.Token{}, c)
				if a.Verdict != ledger.First {
					b.Fatal(a.Verdict)
				}
				k.store.Settle(a.Lease, ledger.Outcome{Event: ledger.Complete, Reply: message(&a.Lease, 400)})
			}
			w.report(b)
		})
	}
}
