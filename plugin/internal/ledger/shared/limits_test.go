package shared

import (
	"slices"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// Each cap alone refuses the claim after the last one that fits, and only within its
// level.
func TestEachCap(t *testing.T) {
	const n = 3
	for _, tt := range []struct {
		name string
		set  func(l *ledger.Limits)
		end  ledger.Event // how the calls before end; InFlight stays for LoseLease
		open bool
		// which claims are refused then: of the same scope, another scope of the same
		// principal, another principal, another policy
		refused [4]bool
	}{
		{"entries", func(l *ledger.Limits) { l.Entries = n }, ledger.Complete, false, [4]bool{true, true, true, false}},
		{"entries of a principal", func(l *ledger.Limits) { l.EntriesPerPrincipal = n }, ledger.Complete, false, [4]bool{true, true, false, false}},
		{"entries of a scope", func(l *ledger.Limits) { l.EntriesPerScope = n }, ledger.Complete, false, [4]bool{true, false, false, false}},
		{"in flight", func(l *ledger.Limits) { l.InFlight = n }, 0, true, [4]bool{true, true, true, false}},
		{"in flight of a principal", func(l *ledger.Limits) { l.InFlightPerPrincipal = n }, 0, true, [4]bool{true, true, false, false}},
		{"in flight of a scope", func(l *ledger.Limits) { l.InFlightPerScope = n }, 0, true, [4]bool{true, false, false, false}},
		{"tombstones, spent", func(l *ledger.Limits) { l.TombstonesPerScope = n }, ledger.MarkUnknown, false, [4]bool{true, false, false, false}},
		{"tombstones, reserved", func(l *ledger.Limits) { l.TombstonesPerScope = n }, 0, true, [4]bool{true, false, false, false}},
		{"tombstones do not count what completed", func(l *ledger.Limits) { l.TombstonesPerScope = n }, ledger.Complete, false, [4]bool{}},
		{"nor what is in flight no more", func(l *ledger.Limits) { l.InFlight = n }, ledger.Complete, false, [4]bool{}},
		{"nothing released counts", func(l *ledger.Limits) { l.Entries = n }, ledger.Release, false, [4]bool{}},
	} {
		for _, evict := range []bool{false, true} {
			layout := tiny
			layout.Ways = 64
			w := newWorld(1, layout, 1)
			k := w.worker[0]
			limits := usual()
			tt.set(&limits)
			limits.OnFullEvict = evict
			claim := func(id int, policy string, principal, scope uint64) ledger.Verdict {
				c := claimOf(id)
				c.Limits, c.Policy, c.Principal, c.Scope = limits, numberOf(policy), principal, scope
				w.watch.allow(&c)
				return k.ask(c).Verdict
			}
			for i := range n {
				want(t, tt.name, claim(i, "p", 1, 1), ledger.First)
				if !tt.open {
					k.settle(k.streams[0], tt.end, 60)
				}
				w.now++
			}
			for i, other := range []struct {
				policy           string
				principal, scope uint64
			}{{"p", 1, 1}, {"p", 1, 2}, {"p", 2, 3}, {"q", 2, 3}} {
				v := ledger.First
				evictable := evict && tt.end == ledger.Complete && !tt.open
				if tt.refused[i] && !evictable {
					v = ledger.RefusedCapacity
				}
				before := w.notices[ledger.Evicted]
				want(t, tt.name, claim(10+i, other.policy, other.principal, other.scope), v)
				if gone := w.notices[ledger.Evicted] - before; (gone == 1) != (tt.refused[i] && evictable) || gone > 1 {
					t.Errorf("%s: %d evicted", tt.name, gone)
				}
				if v == ledger.First {
					k.settle(k.streams[len(k.streams)-1], ledger.Release, 0)
				}
				if tt.refused[i] && evictable {
					// Fill it again, for the next.
					want(t, tt.name, claim(20+i, "p", 1, 1), ledger.First)
					k.settle(k.streams[len(k.streams)-1], ledger.Complete, 60)
				}
			}
			sound(t, w)
		}
	}
}

// The oldest completed entry goes, the asking principal's own first, never one in
// flight, never a tombstone.
func TestEvictionOrder(t *testing.T) {
	layout := tiny
	layout.Ways = 64
	w := newWorld(1, layout, 2)
	k := w.worker[0]
	var ages []time.Duration
	k.store.env.Evicted = func(_ uint64, age time.Duration) { ages = append(ages, age) }
	limits := usual()
	limits.Entries, limits.OnFullEvict = 6, true
	ask := func(n int, principal uint64) ledger.Verdict {
		c := claimOf(n)
		c.Limits, c.Principal, c.Scope = limits, principal, principal
		w.watch.allow(&c)
		w.now += ledger.Mono(time.Second)
		return k.ask(c).Verdict
	}
	for n, end := range []ledger.Event{ledger.MarkUnknown, ledger.Complete, ledger.MarkNotReplayable, ledger.Complete, ledger.Complete} {
		want(t, "fill", ask(n, uint64(1+n/3)), ledger.First) // keys 0, 1, 2 are of principal 1, 3, 4 of 2
		k.settle(k.streams[0], end, 60)
	}
	want(t, "in flight", ask(5, 1), ledger.First)
	for i, step := range []struct {
		principal uint64
		gone      int
	}{
		{2, 3}, // its own oldest, although 1 is older
		{3, 1}, // none of its own: the oldest of all
		{2, 4},
	} {
		want(t, "a full policy", ask(10+i, step.principal), ledger.First)
		k.settle(k.streams[len(k.streams)-1], ledger.MarkUnknown, 0)
		for n := range 6 {
			st, _ := stateOf(w, n)
			gone := st == ledger.Free
			if n == step.gone && !gone {
				t.Errorf("step %d: key %d is still there", i, n)
			}
		}
	}
	want(t, "nothing left to evict", ask(20, 2), ledger.RefusedCapacity)
	for n, st := range map[int]ledger.State{0: ledger.Unknown, 2: ledger.NotReplayable, 5: ledger.InFlight} {
		if got, _ := stateOf(w, n); got != st {
			t.Errorf("key %d: state %d, want %d", n, got, st)
		}
	}
	// The clock goes a second with each claim: keys 3, 1 and 4 were settled at 4, 2 and 5,
	// and evicted at 7, 8 and 9.
	if w.notices[ledger.Evicted] != 3 || !slices.Equal(ages, []time.Duration{3 * time.Second, 6 * time.Second, 4 * time.Second}) {
		t.Errorf("evicted %d, at the ages %v", w.notices[ledger.Evicted], ages)
	}
	sound(t, w)
}

// Lowered limits refuse until what is there has gone; raised ones admit at once.
func TestChangedLimits(t *testing.T) {
	layout := tiny
	layout.Ways = 64
	w := newWorld(1, layout, 2)
	wide, narrow := small(false), small(false)
	wide.Entries, wide.EntriesPerPrincipal, wide.EntriesPerScope = 10, 10, 10
	wide.InFlight, wide.InFlightPerPrincipal, wide.InFlightPerScope, wide.TombstonesPerScope = 10, 10, 10, 10
	ask := func(worker, n int, l ledger.Limits) ledger.Verdict {
		c := claimOf(n)
		c.Limits, c.Scope, c.Principal = l, 1, 1
		w.watch.allow(&c)
		return w.worker[worker].ask(c).Verdict
	}
	for n := range 5 {
		want(t, "wide", ask(0, n, wide), ledger.First)
	}
	want(t, "narrow", ask(1, 5, narrow), ledger.RefusedCapacity)
	want(t, "wide, beside it", ask(0, 5, wide), ledger.First)
	for _, f := range w.worker[0].streams {
		w.worker[0].store.Settle(f.lease, ledger.Outcome{Event: ledger.Release})
	}
	w.worker[0].streams = nil
	want(t, "narrow, after they have gone", ask(1, 6, narrow), ledger.First)
	sound(t, w)
}

// A second settlement of a completed entry needs a tombstone. Without room for one the reply
// is struck out all the same.
func TestSecondSettlementWithoutRoom(t *testing.T) {
	for _, tombs := range []int{1, 2} {
		w := newWorld(1, tiny, 1)
		k := w.worker[0]
		ask := func(n int) ledger.Verdict {
			c := claimOf(n)
			c.Limits.TombstonesPerScope, c.Scope = tombs, 1
			w.watch.allow(&c)
			return k.ask(c).Verdict
		}
		want(t, "first", ask(0), ledger.First)
		h := k.streams[0].lease
		k.settle(k.streams[0], ledger.Complete, 60)
		want(t, "second", ask(1), ledger.First)
		if got := k.store.Settle(h, ledger.Outcome{Event: ledger.MarkNotReplayable}); got != ledger.Applied {
			t.Errorf("the second settlement: %d", got)
		}
		want(t, "its repeat", ask(0), ledger.RefusedNotReplayable)
		wantState := ledger.NotReplayable
		if tombs == 1 {
			wantState = ledger.Completed
		}
		if st, _ := stateOf(w, 0); st != wantState {
			t.Errorf("with room for %d tombstones: state %d", tombs, st)
		}
		sound(t, w)
	}
}

// A bucket that is full of what has expired takes a claim; one full of what counts
// refuses, and says so.
func TestFullBucket(t *testing.T) {
	layout := Layout{Buckets: 1, Ways: 3, PieceBytes: 64, Pages: 1, Holders: 4, SweepSteps: 1}
	w := newWorld(1, layout, 1)
	k := w.worker[0]
	for n := range 3 {
		want(t, "fill", k.ask(claimOf(n)).Verdict, ledger.First)
		k.settle(k.streams[0], ledger.Complete, 60)
	}
	want(t, "full", k.ask(claimOf(3)).Verdict, ledger.RefusedCapacity)
	if w.notices[ledger.BucketFull] != 1 {
		t.Errorf("told %d times", w.notices[ledger.BucketFull])
	}
	w.now += ledger.Mono(30 * time.Second)
	want(t, "full of what expired", k.ask(claimOf(3)).Verdict, ledger.First)
	w.watch.exact()
	sound(t, w)
}

// What a pass of the sweep tells of each policy.
func TestCensus(t *testing.T) {
	w := newWorld(1, tiny, 1)
	k := w.worker[0]
	told := map[uint64]ledger.Census{}
	k.store.env.Census = func(policy uint64, c ledger.Census) { told[policy] = c }
	k.store.env.Policies = append(k.store.env.Policies, numberOf("idle"))
	for n, end := range []ledger.Event{ledger.Complete, ledger.Complete, ledger.MarkUnknown, ledger.MarkNotReplayable} {
		k.ask(claimOf(n))
		k.settle(k.streams[0], end, 50)
	}
	k.ask(claimOf(4))
	for range 10 {
		k.tick()
	}
	if got := told[numberOf("p")]; got != (ledger.Census{States: [ledger.NumStates]int{0, 1, 2, 1, 1}, ReplyBytes: 100}) {
		t.Errorf("policy p: %+v", got)
	}
	if got, ok := told[numberOf("idle")]; !ok || got != (ledger.Census{}) {
		t.Errorf("an idle policy: %+v, %v", got, ok)
	}
}
