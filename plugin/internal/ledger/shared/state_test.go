package shared

import (
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// reach brings a key into a state, by a worker that then still has its lease.
func reach(w *world, st ledger.State) ledger.Lease {
	k := w.worker[0]
	a := k.ask(claimOf(0))
	f := k.streams[0]
	switch st {
	case ledger.Free:
		k.settle(f, ledger.Release, 0)
	case ledger.InFlight:
	case ledger.Completed:
		k.settle(f, ledger.Complete, 60)
	case ledger.Unknown:
		k.settle(f, ledger.MarkUnknown, 0)
	case ledger.NotReplayable:
		k.settle(f, ledger.MarkNotReplayable, 0)
	}
	return a.Lease
}

func stateOf(w *world, n int) (ledger.State, bool) {
	id := idOf(n)
	b := w.worker[0].store.buckets.Lookup(&id)
	if !b.OK() {
		return 0, false
	}
	e := b.Entry
	if e == nil {
		return ledger.Free, true
	}
	return e.State(), e.Readable()
}

// Every cell of the table of package state, through a real store: what each state answers,
// and what each event of its holder, and of a stranger, makes of it.
func TestTable(t *testing.T) {
	for st := ledger.Free; st < ledger.NumStates; st++ {
		says := func(same, retry bool) ledger.Verdict {
			return state.Judge(&state.Found{State: st, Same: same}, &ledger.Claim{RetryUnknown: retry})
		}
		for _, ask := range []struct {
			retry, other bool
			want         ledger.Verdict
		}{{false, false, says(true, false)}, {true, false, says(true, true)}, {false, true, says(false, false)}, {true, true, says(false, true)}} {
			w := newWorld(1, tiny, 2)
			reach(w, st)
			c := claimOf(0)
			c.RetryUnknown = ask.retry
			if ask.other {
				c.Fingerprint[31] = 5
			}
			w.watch.allow(&c)
			if got := w.worker[1].ask(c).Verdict; got != ask.want {
				t.Errorf("state %d, retry %v, other %v: %d, want %d", st, ask.retry, ask.other, got, ask.want)
			}
			if w.broken != nil {
				t.Error(w.broken)
			}
		}
		for ev := ledger.Event(0); ev < ledger.NumHolderEvents; ev++ {
			w := newWorld(1, tiny, 2)
			h := reach(w, st)
			want, takes := state.Next(st, ev)
			how := ledger.Applied
			if !takes {
				want, how = st, ledger.Fenced
			}
			stranger := h
			stranger.Fence++
			if got := w.worker[0].store.Settle(stranger, ledger.Outcome{Event: ev, Reply: message(&stranger, 50)}); got != ledger.Fenced {
				t.Errorf("state %d, event %d of another fence: %d", st, ev, got)
			}
			stranger = h
			stranger.Holder++
			if got := w.worker[1].store.Settle(stranger, ledger.Outcome{Event: ev, Reply: message(&stranger, 50)}); got != ledger.Fenced {
				t.Errorf("state %d, event %d of another holder: %d", st, ev, got)
			}
			if got := w.worker[0].store.Settle(h, ledger.Outcome{Event: ev, Reply: message(&h, 50)}); got != how {
				t.Errorf("state %d, event %d: %d, want %d", st, ev, got, how)
			}
			if got, _ := stateOf(w, 0); got != want {
				t.Errorf("state %d, event %d: state %d, want %d", st, ev, got, want)
			}
			if w.broken != nil {
				t.Error(w.broken)
			}
		}
		for ev := ledger.Event(ledger.NumHolderEvents); ev <= ledger.NumEvents; ev++ {
			w := newWorld(1, tiny, 1)
			h := reach(w, st)
			if got := w.worker[0].store.Settle(h, ledger.Outcome{Event: ev}); got != ledger.Fenced {
				t.Errorf("state %d: the outside says event %d, which only the ledger sees: %d", st, ev, got)
			}
		}
	}
}

// Case 39: just before and just after ttl, from the settlement; and window, from the
// claim.
func TestRetention(t *testing.T) {
	ms := ledger.Mono(time.Millisecond)
	for _, tt := range []struct {
		name   string
		window time.Duration
		end    ledger.Event
		after  ledger.Mono // from the settlement
		free   bool
	}{
		{"before ttl", 0, ledger.Complete, 30000*ms - 1, false},
		{"at ttl", 0, ledger.Complete, 30000 * ms, true},
		{"a tombstone before ttl", 0, ledger.MarkUnknown, 30000*ms - 1, false},
		{"a tombstone at ttl", 0, ledger.MarkUnknown, 30000 * ms, true},
		{"ttl over, window not", time.Minute, ledger.Complete, 50000*ms - 1, false},
		{"window over, ttl not", 20 * time.Second, ledger.Complete, 30000*ms - 1, false},
		{"both over", time.Minute, ledger.Complete, 50000 * ms, true},
	} {
		w := newWorld(1, tiny, 2)
		c := claimOf(0)
		c.Terms.Window = tt.window
		w.watch.allow(&c)
		k := w.worker[0]
		k.ask(c)
		w.now += 10000 * ms
		k.settle(k.streams[0], tt.end, 60)
		w.now += tt.after
		got := w.worker[1].ask(c).Verdict
		if (got == ledger.First) != tt.free {
			t.Errorf("%s: %d", tt.name, got)
		}
		if w.broken != nil {
			t.Error(w.broken)
		}
	}
}

func TestRetryCountsAttempts(t *testing.T) {
	w := newWorld(1, tiny, 2)
	c := claimOf(0)
	c.Session, c.Request = 11, 22
	w.watch.retries = true
	for n := 1; n <= 3; n++ {
		k := w.worker[n%2]
		retry := c
		retry.RetryUnknown = n > 1
		a := k.ask(retry)
		if a.Verdict != ledger.First || a.Lease.Attempt != n {
			t.Fatalf("attempt %d: %d, %d", n, a.Verdict, a.Lease.Attempt)
		}
		if n > 1 && (a.Prior.Attempt != n-1 || a.Prior.Session != 11 || a.Prior.Request != 22 || a.Prior.Settled == 0) {
			t.Errorf("attempt %d knows of the one before: %+v", n, a.Prior)
		}
		if k.settle(k.streams[0], ledger.MarkUnknown, 0) != ledger.Applied {
			t.Fatal("not settled")
		}
	}
	if a := w.worker[0].ask(c); a.Verdict != ledger.RefusedUnknown || a.Prior.Attempt != 3 {
		t.Errorf("without the flag: %d, attempt %d", a.Verdict, a.Prior.Attempt)
	}
	if w.broken != nil {
		t.Error(w.broken)
	}
}

// Case 43: a task's handle only for those who declare tasks.
func TestTask(t *testing.T) {
	w := newWorld(1, tiny, 2)
	k := w.worker[0]
	a := k.ask(claimOf(0))
	r := message(&a.Lease, 60)
	r.Task = true
	k.store.Settle(a.Lease, ledger.Outcome{Event: ledger.Complete, Reply: r})
	c := claimOf(0)
	if got := w.worker[1].ask(c).Verdict; got != ledger.RefusedNotReplayable {
		t.Errorf("a client without tasks: %d", got)
	}
	c.TakesTasks = true
	if got := w.worker[1].ask(c); got.Verdict != ledger.Replay || !got.Reply.Task || got.Prior.Claimed != a.Lease.Claimed {
		t.Errorf("a client with tasks: %+v", got)
	}
}
