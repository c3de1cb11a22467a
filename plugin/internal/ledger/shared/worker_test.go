package shared

import (
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

func want(t *testing.T, what string, got, want ledger.Verdict) {
	t.Helper()
	if got != want {
		t.Errorf("%s: verdict %d, want %d", what, got, want)
	}
}

func sound(t *testing.T, w *world) {
	t.Helper()
	if w.broken != nil {
		t.Error(w.broken)
	}
}

// Case 13: a worker is killed in mid call.
func TestKilledInMidCall(t *testing.T) {
	for _, sweep := range []bool{false, true} {
		w := newWorld(1, tiny, 2)
		w.worker[0].ask(claimOf(0))
		w.worker[0].crash()
		w.now += ledger.Mono(5*time.Second) - 1
		want(t, "within the lease", w.worker[1].ask(claimOf(0)).Verdict, ledger.RefusedInFlight)
		w.now++
		if sweep {
			for range 4 {
				w.worker[1].tick()
			}
			if st, _ := stateOf(w, 0); st != ledger.Unknown {
				t.Errorf("swept, nobody asked: state %d", st)
			}
		}
		for range 3 {
			want(t, "after it", w.worker[1].ask(claimOf(0)).Verdict, ledger.RefusedUnknown)
		}
		if w.notices[ledger.Orphaned] != 1 {
			t.Errorf("orphaned %d times", w.notices[ledger.Orphaned])
		}
		sound(t, w)
	}
}

// Case 14: slower than the lease, the holder alive; then gone, and back.
func TestSlowerThanTheLease(t *testing.T) {
	w := newWorld(1, tiny, 2)
	k := w.worker[0]
	k.ask(claimOf(0))
	for range 3600 {
		w.pass(time.Second)
	}
	want(t, "an hour later", w.worker[1].ask(claimOf(0)).Verdict, ledger.RefusedInFlight)
	for range 24 * 3600 / 4 {
		w.pass(4 * time.Second)
	}
	want(t, "a day later", w.worker[1].ask(claimOf(0)).Verdict, ledger.RefusedInFlight)
	w.now += ledger.Mono(5 * time.Second)
	want(t, "silent for the lease", w.worker[1].ask(claimOf(0)).Verdict, ledger.RefusedUnknown)
	if got := k.settle(k.streams[0], ledger.Complete, 60); got != ledger.Fenced {
		t.Errorf("the late write: %d", got)
	}
	want(t, "after the late write", w.worker[1].ask(claimOf(0)).Verdict, ledger.RefusedUnknown)
	if w.notices[ledger.LateFenced] != 1 {
		t.Errorf("fenced %d times", w.notices[ledger.LateFenced])
	}
	sound(t, w)
}

// A worker silent so long that its slot was taken goes on as another holder.
func TestSlotTaken(t *testing.T) {
	layout := tiny
	layout.Holders = 1
	w := newWorld(1, layout, 2)
	a, b := w.worker[0], w.worker[1]
	want(t, "first", a.ask(claimOf(0)).Verdict, ledger.First)
	want(t, "no slot", b.ask(claimOf(1)).Verdict, ledger.RefusedUnavailable)
	w.now += ledger.Mono(9 * time.Second)
	want(t, "still no slot", b.ask(claimOf(1)).Verdict, ledger.RefusedUnavailable)
	w.now += ledger.Mono(time.Second)
	want(t, "silent for two leases", b.ask(claimOf(1)).Verdict, ledger.First)
	want(t, "whose slot is taken", a.ask(claimOf(2)).Verdict, ledger.RefusedUnavailable)
	want(t, "its key", b.ask(claimOf(0)).Verdict, ledger.RefusedUnknown)
	if got := a.settle(a.streams[0], ledger.Complete, 60); got != ledger.Fenced {
		t.Errorf("the late write: %d", got)
	}
	sound(t, w)
}

// A heartbeat that the table refuses does not cost the leases of a worker whose slot is still its own.
func TestHeartbeatRefused(t *testing.T) {
	w := newWorld(1, tiny, 2)
	a, b := w.worker[0], w.worker[1]
	want(t, "first", a.ask(claimOf(0)).Verdict, ledger.First)
	refused := 0
	w.lose = func(key string) bool {
		if !strings.HasPrefix(key, "h/") && !strings.Contains(key, "/h/") || refused == 3 {
			return false
		}
		refused++
		return true
	}
	for range 12 {
		w.pass(time.Second)
	}
	if refused != 3 {
		t.Fatalf("%d heartbeats were refused", refused)
	}
	want(t, "while it runs", b.ask(claimOf(0)).Verdict, ledger.RefusedInFlight)
	if got := a.settle(a.streams[0], ledger.Complete, 60); got != ledger.Applied {
		t.Errorf("settled: %d", got)
	}
	want(t, "after it", b.ask(claimOf(0)).Verdict, ledger.Replay)
	sound(t, w)
}

// A worker without leases keeps no slot: however many configurations drain,
// those that claim find one.
func TestIdleKeepsNoSlot(t *testing.T) {
	layout := tiny
	layout.Holders = 1
	w := newWorld(1, layout, 2)
	a, b := w.worker[0], w.worker[1]
	want(t, "first", a.ask(claimOf(0)).Verdict, ledger.First)
	a.tick()
	want(t, "while it has a lease", b.ask(claimOf(1)).Verdict, ledger.RefusedUnavailable)
	if got := a.settle(a.streams[0], ledger.Complete, 60); got != ledger.Applied {
		t.Fatalf("settled: %d", got)
	}
	a.tick()
	want(t, "after it", b.ask(claimOf(1)).Verdict, ledger.First)
	want(t, "a's key", b.ask(claimOf(0)).Verdict, ledger.Replay)
	if got := b.settle(b.streams[0], ledger.Complete, 60); got != ledger.Applied {
		t.Fatalf("settled: %d", got)
	}
	b.tick()
	want(t, "a again", a.ask(claimOf(2)).Verdict, ledger.First)
	sound(t, w)
}

// Two policies of different leases: the longer counts for the slot, each for its own
// entries.
func TestLeaseOfEach(t *testing.T) {
	w := newWorld(1, tiny, 2)
	short, long := claimOf(0), claimOf(1)
	long.Terms.LeaseTTL = time.Minute
	w.worker[0].ask(short)
	w.worker[0].ask(long)
	w.worker[0].crash()
	w.now += ledger.Mono(10 * time.Second)
	want(t, "short", w.worker[1].ask(short).Verdict, ledger.RefusedUnknown)
	w.now += ledger.Mono(49 * time.Second)
	want(t, "long", w.worker[1].ask(long).Verdict, ledger.RefusedInFlight)
	w.now += ledger.Mono(time.Second)
	want(t, "long, after its lease", w.worker[1].ask(long).Verdict, ledger.RefusedUnknown)
	sound(t, w)
}

// A key settles, and ends, under the terms that it was claimed with, whoever asks or
// marks it unknown.
func TestTermsAsClaimed(t *testing.T) {
	w := newWorld(1, tiny, 2)
	c, other := claimOf(0), claimOf(0)
	other.Terms.TTL, other.Terms.LeaseTTL = 5*time.Minute, time.Minute
	w.watch.allow(&c)
	w.worker[0].ask(c)
	w.worker[0].crash()
	w.now += ledger.Mono(5 * time.Second)
	want(t, "the lease as claimed", w.worker[1].ask(other).Verdict, ledger.RefusedUnknown)
	w.now += ledger.Mono(30*time.Second) - 1
	want(t, "before the ttl as claimed", w.worker[1].ask(other).Verdict, ledger.RefusedUnknown)
	w.now++
	want(t, "after it", w.worker[1].ask(other).Verdict, ledger.First)
	sound(t, w)
}

// A settlement that never came, in each way that it can be lost.
func TestLostSettlement(t *testing.T) {
	t.Run("the stream is gone", func(t *testing.T) {
		w := newWorld(1, tiny, 2)
		k := w.worker[0]
		k.ask(claimOf(0))
		k.streams = nil
		want(t, "before the tick", w.worker[1].ask(claimOf(0)).Verdict, ledger.RefusedInFlight)
		k.tick()
		want(t, "after it", w.worker[1].ask(claimOf(0)).Verdict, ledger.RefusedUnknown)
		sound(t, w)
	})
	t.Run("the stream says that it is gone", func(t *testing.T) {
		w := newWorld(1, tiny, 2)
		k := w.worker[0]
		k.ask(claimOf(0))
		k.store.env.Live = nil
		k.tick()
		want(t, "nobody says so", w.worker[1].ask(claimOf(0)).Verdict, ledger.RefusedInFlight)
		k.store.Forget(k.streams[0].token)
		want(t, "forgotten", w.worker[1].ask(claimOf(0)).Verdict, ledger.RefusedUnknown)
		sound(t, w)
	})
	t.Run("a fault inside", func(t *testing.T) {
		// The table panics at each call in turn, first of the claim, then of the settlement.
		for n := range 40 {
			w := newWorld(1, tiny, 2)
			k := w.worker[0]
			k.store.env.Live = nil // nobody else knows what became of the stream
			claimed := false
			faulty(w, n, func() {
				claimed = k.ask(claimOf(0)).Verdict == ledger.First
				if claimed {
					k.settle(k.streams[0], ledger.Complete, 60)
				}
			})
			k.streams = nil
			k.tick()
			got := w.worker[1].ask(claimOf(0)).Verdict
			if !claimed && got != ledger.First {
				t.Errorf("a fault at call %d of the claim, which nobody was told of: %d", n, got)
			}
			if claimed && got != ledger.RefusedUnknown && got != ledger.Replay {
				t.Errorf("a fault at call %d: %d", n, got)
			}
			if k.store.OpenLeases() != 0 {
				t.Errorf("a fault at call %d: %d leases left", n, k.store.OpenLeases())
			}
			w.heal(5 * time.Second)
			w.watch.exact()
			sound(t, w)
		}
	})
	t.Run("a fault at every try", func(t *testing.T) {
		w := newWorld(1, tiny, 2)
		k := w.worker[0]
		k.ask(claimOf(0))
		k.ask(claimOf(1))
		k.streams = nil
		for range 2 * faultsBorne {
			w.now += ledger.Mono(time.Second)
			w.worker[1].tick()   // sweeps, and finds a holder that lives
			faulty(w, 2, k.tick) // after its heartbeat
		}
		for range 10 {
			w.pass(time.Second) // the worker lives
		}
		want(t, "nothing is stuck for good", w.worker[1].ask(claimOf(0)).Verdict, ledger.RefusedUnknown)
		want(t, "nothing is stuck for good", w.worker[1].ask(claimOf(1)).Verdict, ledger.RefusedUnknown)
		w.watch.none(ledger.InFlight)
		sound(t, w)
	})
	t.Run("a fault in the sweep", func(t *testing.T) {
		for n := range 30 {
			w := newWorld(1, tiny, 1)
			k := w.worker[0]
			k.ask(claimOf(0))
			k.settle(k.streams[0], ledger.Complete, 60)
			faulty(w, n, func() {
				for range 6 {
					k.tick()
				}
			})
			w.heal(5 * time.Second)
			w.watch.exact()
			sound(t, w)
		}
	})
	t.Run("the table does not answer", func(t *testing.T) {
		w := newWorld(1, tiny, 2)
		k := w.worker[0]
		k.ask(claimOf(0))
		w.fail = func(string) error { return errTable }
		if got := k.settle(k.streams[0], ledger.MarkUnknown, 0); got != ledger.Pending {
			t.Fatalf("settled: %d", got)
		}
		k.tick()
		w.fail = nil
		want(t, "before", w.worker[1].ask(claimOf(0)).Verdict, ledger.RefusedInFlight)
		want(t, "before, its own", k.ask(claimOf(0)).Verdict, ledger.RefusedInFlight)
		k.tick()
		want(t, "after", w.worker[1].ask(claimOf(0)).Verdict, ledger.RefusedUnknown)
		sound(t, w)
	})
}

// faulty runs f with a panic at the nth call of the table.
func faulty(w *world, n int, f func()) {
	w.fail = func(string) error {
		if n--; n < 0 {
			panic("a fault")
		}
		return nil
	}
	defer func() { w.fail = nil; _ = recover() }()
	f()
}

// Case 40: killed at any step of the settlement, the reply at hand.
func TestKilledWhileSettling(t *testing.T) {
	ends := map[ledger.Verdict]int{}
	for n := 0; ; n++ {
		w := newWorld(1, tiny, 2)
		k := w.worker[0]
		k.ask(claimOf(0))
		k.begin("settle", func() { k.settle(k.streams[0], ledger.Complete, 150) })
		for range n {
			if !k.idle() {
				k.step()
			}
		}
		done := k.idle()
		k.crash()
		w.now += ledger.Mono(5 * time.Second)
		v := w.worker[1].ask(claimOf(0)).Verdict
		if ends[v]++; v != ledger.RefusedUnknown && v != ledger.Replay {
			t.Errorf("killed at step %d: %d", n, v)
		}
		if w.runs[idOf(0)] != 1 {
			t.Errorf("killed at step %d: %d runs", n, w.runs[idOf(0)])
		}
		w.heal(5 * time.Second)
		w.watch.exact()
		sound(t, w)
		if done {
			break
		}
	}
	if ends[ledger.RefusedUnknown] < 4 || ends[ledger.Replay] < 1 {
		t.Errorf("the ends: %v", ends)
	}
}
