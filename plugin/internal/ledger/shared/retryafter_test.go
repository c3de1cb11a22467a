package shared

import (
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// Issue 10, point 11: a refusal for want of room says when there will be room, at each
// level and for each kind of it, in a worker that does not sweep too.
func TestRetryAfterIsTrue(t *testing.T) {
	layout := Layout{Buckets: 8, Ways: 64, PieceBytes: 64, Pages: 2, Holders: 4, SweepSteps: 3}
	const pass = 4 * time.Second // 12 records, 3 a tick
	const ttl = 30 * time.Second
	for _, tt := range []struct {
		name   string
		limits func(*ledger.Limits)
		end    ledger.Event
		swept  bool
	}{
		{"entries of a scope", func(l *ledger.Limits) { l.EntriesPerScope = 3 }, ledger.Complete, true},
		{"entries of a principal", func(l *ledger.Limits) { l.EntriesPerPrincipal = 3 }, ledger.MarkNotReplayable, true},
		{"entries of a policy", func(l *ledger.Limits) { l.Entries = 3 }, ledger.Complete, true},
		{"tombstones of a scope", func(l *ledger.Limits) { l.TombstonesPerScope = 3 }, ledger.MarkUnknown, true},
		{"evictable, but nothing is", func(l *ledger.Limits) { l.EntriesPerScope, l.OnFullEvict = 3, true }, ledger.MarkUnknown, true},
		{"before any sweep", func(l *ledger.Limits) { l.EntriesPerScope = 3 }, ledger.Complete, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(1, layout, 2)
			limits := usual()
			tt.limits(&limits)
			ask := func(k *worker, n int) ledger.Answer {
				c := claimOf(n)
				c.Scope, c.Principal, c.Limits, c.Terms.TTL = 1, 1, limits, ttl
				w.watch.allow(&c)
				return k.ask(c)
			}
			k := w.worker[0]
			for n := range 3 {
				want(t, "fill", ask(k, n).Verdict, ledger.First)
				k.settle(k.streams[0], tt.end, 60)
				w.now += ledger.Mono(time.Second) // they end one after the other
			}
			if tt.end == ledger.MarkUnknown && !limits.OnFullEvict {
				c := claimOf(50) // a completed one that ends sooner is no tombstone
				c.Scope, c.Principal, c.Limits, c.Terms.TTL = 1, 1, usual(), 10*time.Second
				w.watch.allow(&c)
				want(t, "a completed one", k.ask(c).Verdict, ledger.First)
				k.settle(k.streams[0], ledger.Complete, 60)
			}
			begun := w.now // the first ends in 27 seconds
			if tt.swept {
				for range 10 {
					w.pass(time.Second)
				}
			}
			known := time.Duration(0)
			for i := 0; ; i++ {
				a := ask(w.worker[1], 100+i)
				if a.Verdict == ledger.First {
					break
				}
				want(t, "full", a.Verdict, ledger.RefusedCapacity)
				gone := time.Duration(w.now - begun)
				if i == 0 {
					known = gone + a.RetryAfter
				}
				if a.RetryAfter < time.Second || gone+a.RetryAfter > ttl+2*pass {
					t.Errorf("after %v: come again in %v", gone, a.RetryAfter)
				}
				w.pass(time.Second)
			}
			came := time.Duration(w.now - begun)
			wantKnown := 27*time.Second + pass
			if !tt.swept {
				wantKnown = ttl + pass
			}
			if known != wantKnown || came > known || came < 27*time.Second {
				t.Errorf("said after %v, want %v; room came after %v", known, wantKnown, came)
			}
			sound(t, w)
		})
	}
}

// What comes back when a call ends, or with the next tick, is worth another try at once.
func TestRetryAfterAtOnce(t *testing.T) {
	for name, limit := range map[string]func(*ledger.Limits){
		"in flight":           func(l *ledger.Limits) { l.InFlightPerScope = 1 },
		"reserved tombstones": func(l *ledger.Limits) { l.TombstonesPerScope = 1 },
	} {
		w := newWorld(1, tiny, 1)
		ask := func(n int) ledger.Answer {
			c := claimOf(n)
			c.Scope = 1
			limit(&c.Limits)
			w.watch.allow(&c)
			return w.worker[0].ask(c)
		}
		want(t, name, ask(0).Verdict, ledger.First)
		if a := ask(1); a.Verdict != ledger.RefusedCapacity || a.RetryAfter != time.Second {
			t.Errorf("%s: %d, come again in %v", name, a.Verdict, a.RetryAfter)
		}
	}
}

// A full bucket frees what has ended at the claim that needs it: no sweep is waited for.
// What no pass nor bucket tells is bounded all the same.
func TestRetryAfterOfABucket(t *testing.T) {
	w := newWorld(1, Layout{Buckets: 1, Ways: 2, PieceBytes: 64, Pages: 1, Holders: 4, SweepSteps: 1}, 1)
	k := w.worker[0]
	for n := range 2 {
		want(t, "fill", k.ask(claimOf(n)).Verdict, ledger.First)
		k.settle(k.streams[0], ledger.Complete, 60)
		w.now += ledger.Mono(1500 * time.Millisecond)
	}
	a := k.ask(claimOf(3))
	if a.Verdict != ledger.RefusedCapacity || a.RetryAfter != 27*time.Second {
		t.Errorf("%d, come again in %v", a.Verdict, a.RetryAfter)
	}
	w.now += ledger.Mono(a.RetryAfter)
	want(t, "when it said", k.ask(claimOf(3)).Verdict, ledger.First)

	for ttl, want := range map[time.Duration]time.Duration{0: time.Second, 1000 * time.Hour: mostRetry} {
		c := claimOf(4)
		c.Terms.TTL = ttl
		if got := retryBucket(nil, &c, w.now); got != want {
			t.Errorf("ttl %v: come again in %v, want %v", ttl, got, want)
		}
	}
}

// Foreign bytes in a record of ends are left alone, and cost only what was to be said.
func TestForeignDues(t *testing.T) {
	w := newWorld(1, tiny, 1)
	k := w.worker[0]
	for n := range 2 {
		w.set(nil, k.store.quota.DueKey(n), []byte("not ours"), 0)
	}
	for n := range 2 {
		c := claimOf(n)
		c.Scope, c.Limits.EntriesPerScope = 1, 1
		w.watch.allow(&c)
		if a := k.ask(c); n == 1 && (a.Verdict != ledger.RefusedCapacity || a.RetryAfter != c.Terms.TTL+k.store.passTime()) {
			t.Errorf("%d, come again in %v", a.Verdict, a.RetryAfter)
		}
	}
	for range 10 {
		w.pass(time.Second)
	}
	for n := range 2 {
		if got := string(w.cells[k.store.quota.DueKey(n)].value); got != "not ours" {
			t.Errorf("written over with %q", got)
		}
	}
}
