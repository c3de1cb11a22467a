package shared

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/quota"
)

// Issue 10, point 24: changes of the code that no test had noticed.

// A sweeper that is silent for three seconds is followed by another, not sooner and not
// later.
func TestSweeperIsFollowed(t *testing.T) {
	w := newWorld(1, tiny, 2)
	first, next := w.worker[0], w.worker[1]
	first.tick()
	for _, tt := range []struct {
		silent time.Duration
		leads  bool
	}{{0, false}, {2999 * time.Millisecond, false}, {3 * time.Second, true}} {
		w.now = ledger.Mono(time.Hour) + ledger.Mono(tt.silent)
		next.tick()
		if leads := next.store.sweep.epoch != 0; leads != tt.leads {
			t.Errorf("after %v of silence the next one sweeps: %v", tt.silent, leads)
		}
	}
	// The first finds that it was followed.
	first.tick()
	if first.store.sweep.epoch != 0 {
		t.Error("two sweep")
	}
}

// Each scan for what can be evicted reads the whole table: a worker makes so many
// between two ticks. A claim beyond finds a victim all the same, by a search that ends where
// it meets one.
func TestScansAreBounded(t *testing.T) {
	w := newWorld(1, Layout{Buckets: 32, Ways: 8, PieceBytes: 64, Pages: 2, Holders: 4, SweepSteps: 1}, 1)
	k := w.worker[0]
	n := 0
	ask := func() ledger.Answer {
		c := claimOf(n)
		c.Limits.Entries, c.Limits.OnFullEvict = 1, true
		c.Scope, c.Principal = uint64(n), uint64(n)
		w.watch.allow(&c)
		w.now++
		n++
		a := k.ask(c)
		if a.Verdict == ledger.First {
			k.settle(k.streams[0], ledger.Complete, 60)
		}
		return a
	}
	want(t, "the first", ask().Verdict, ledger.First)
	for range 3 {
		for i := range 4 { // scansPerTick: what a scan finds is spent by the claim that made it
			before := w.gets
			want(t, fmt.Sprint("scan ", i), ask().Verdict, ledger.First)
			if read := w.gets - before; read < 32 {
				t.Fatalf("claim %d made no scan: %d reads", i, read)
			}
		}
		for i := range 20 {
			before := w.gets
			want(t, fmt.Sprint("a claim beyond ", i), ask().Verdict, ledger.First)
			if k.store.scans != 0 {
				t.Fatalf("claim %d beyond leaves %d scans", i, k.store.scans)
			}
			if read := w.gets - before; read > 32+20 {
				t.Fatalf("claim %d beyond read %d records", i, read)
			}
		}
		k.tick()
	}
	if w.notices[ledger.Evicted] != n-1 {
		t.Errorf("%d evicted, expected %d", w.notices[ledger.Evicted], n-1)
	}
}

// A search that finds nothing reads the whole table, so there are few between two ticks. One
// that finds much ends soon, and takes the oldest of what it met.
func TestSampledSearches(t *testing.T) {
	w := newWorld(1, Layout{Buckets: 32, Ways: 8, PieceBytes: 64, Pages: 2, Holders: 4, SweepSteps: 1}, 1)
	k := w.worker[0]
	of := group{level: quota.Policy}
	search := func() (ok bool, read int) {
		before := w.gets
		ok = k.store.evictSampled(&of, numberOf("p"), w.now)
		return ok, w.gets - before
	}
	for range 2 {
		for i := range vainPerTick {
			if ok, read := search(); ok || read != 32 {
				t.Fatalf("search %d in vain: %v after %d reads", i, ok, read)
			}
		}
		if ok, read := search(); ok || read != 0 {
			t.Fatalf("one more: %v after %d reads", ok, read)
		}
		k.tick()
	}
	for n := range 64 {
		w.now++
		want(t, "fill", k.ask(claimOf(n)).Verdict, ledger.First)
		k.settle(k.streams[0], ledger.Complete, 60)
	}
	var went ledger.Mono
	k.store.env.Evicted = func(_ uint64, age time.Duration) { went = w.now - ledger.Mono(age) }
	for i := range 8 {
		at := k.store.searched
		ok, read := search()
		if !ok || read > 16 {
			t.Fatalf("search %d: %v after %d reads", i, ok, read)
		}
		// What is left of the buckets that it read is younger than what went.
		oldest := ledger.Mono(1 << 62)
		for b := at; b != k.store.searched; b = (b + 1) % 32 {
			k.store.gather(b, numberOf("p"), func(a candidate) { oldest = min(oldest, a.settled) })
		}
		if went > oldest {
			t.Errorf("search %d: one of %d is left, one of %d went", i, oldest, went)
		}
	}
}

// What a scan remembers is bounded too, and is the oldest.
func TestScanRemembersTheOldest(t *testing.T) {
	w := newWorld(1, Layout{Buckets: 512, Ways: 64, PieceBytes: 64, Pages: 4, Holders: 4, SweepSteps: 1}, 1)
	w.watch = nil
	k := w.worker[0]
	const all = 2*candidatesKept + 1000
	limits := ledger.Limits{Entries: all, OnFullEvict: true}
	ask := func(n int) ledger.Verdict {
		c := claimOf(n)
		c.Limits, c.Terms.TTL = limits, time.Hour
		w.now++
		a, _ := k.store.Ask(ledger.Token{}, c)
		if a.Verdict == ledger.First {
			k.store.Settle(a.Lease, ledger.Outcome{Event: ledger.Complete, Reply: message(&a.Lease, 43)})
		}
		return a.Verdict
	}
	for n := range all {
		want(t, "fill", ask(n), ledger.First)
	}
	want(t, "one more", ask(all), ledger.First)
	known := k.store.evictable[numberOf("p")]
	if len(known.list) != candidatesKept-1 || !known.truncated {
		t.Errorf("%d remembered, want %d; known to be cut: %v", len(known.list), candidatesKept-1, known.truncated)
	}
	if !slices.IsSortedFunc(known.list, func(a, b candidate) int { return int(a.settled - b.settled) }) {
		t.Error("not the oldest first")
	}
	for n := range 10 {
		if st, _ := stateOf(w, n); (st == ledger.Free) != (n == 0) {
			t.Errorf("key %d: state %d", n, st)
		}
	}
}

// Times are kept to the millisecond, rounded up: nothing ends before its time.
func TestMillisecondsAreRoundedUp(t *testing.T) {
	w := newWorld(1, tiny, 1)
	k := w.worker[0]
	c := claimOf(0)
	c.Terms.TTL = 1500 * time.Microsecond
	k.ask(c)
	k.settle(k.streams[0], ledger.Complete, 60)
	w.now += ledger.Mono(1500*time.Microsecond) - 1
	want(t, "before its time", k.ask(c).Verdict, ledger.Replay)
}

// A record that is not ours is told once, however often it is met, and each by its name.
func TestForeignIsToldOnce(t *testing.T) {
	w := newWorld(1, tiny, 1)
	w.watch.foreign = true
	k := w.worker[0]
	var said []string
	k.store.env.Log = func(text string) { said = append(said, text) }
	for n := range 2 {
		w.set(nil, k.store.buckets.Key(n), []byte("not ours"), 0)
		w.set(nil, k.store.quota.Key(n), []byte("not ours"), 0)
	}
	for n := range 20 {
		want(t, "a key in it", k.ask(claimOf(n)).Verdict, ledger.RefusedUnavailable)
		w.pass(time.Second)
	}
	if len(said) != 4 || w.notices[ledger.Foreign] != 4 {
		t.Errorf("four records: told %d times, counted %d", len(said), w.notices[ledger.Foreign])
	}
	for _, key := range []string{"b/0", "b/1", "p/0", "p/1"} {
		if n := strings.Count(strings.Join(said, "\n"), "/"+key+":"); n != 1 {
			t.Errorf("%s is named %d times", key, n)
		}
	}
}

// A claim whose call could never lose its holder, or would at once, is refused.
func TestClaimWithoutALease(t *testing.T) {
	w := newWorld(1, tiny, 1)
	for _, lease := range []time.Duration{0, -time.Second} {
		c := claimOf(0)
		c.Terms.LeaseTTL = lease
		want(t, "no lease", w.worker[0].ask(c).Verdict, ledger.RefusedUnavailable)
	}
	want(t, "a lease", w.worker[0].ask(claimOf(0)).Verdict, ledger.First)
	sound(t, w)
}
