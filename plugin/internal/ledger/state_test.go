package ledger

import (
	"testing"
	"time"
)

// reach brings a key into a state, by a worker that then still has its hold.
func reach(w *world, st State) Lease {
	k := w.worker[0]
	a := k.ask(claimOf(0))
	f := k.streams[0]
	switch st {
	case Free:
		k.settle(f, Release, 0)
	case InFlight:
	case Completed:
		k.settle(f, Complete, 60)
	case Unknown:
		k.settle(f, MarkUnknown, 0)
	case NotReplayable:
		k.settle(f, MarkNotReplayable, 0)
	}
	return a.Lease
}

func stateOf(w *world, n int) (State, bool) {
	s := w.worker[0].store
	id := idOf(n)
	b, _, ok := s.read(s.bucketKey(s.bucketOf(&id)))
	if !ok {
		return 0, false
	}
	e, found := b.find(&id)
	if !found {
		return Free, true
	}
	return e.state(), e.readable()
}

// Every cell of the table of state.go, through a real store: what each state answers,
// and what each event of its holder, and of a stranger, makes of it.
func TestTable(t *testing.T) {
	for st := Free; st < states; st++ {
		r := &table[st]
		for _, ask := range []struct {
			retry, other bool
			want         Verdict
		}{{false, false, r.same}, {true, false, r.retry}, {false, true, r.other}, {true, true, r.other}} {
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
		for ev := Event(0); ev < leaseEvents; ev++ {
			w := newWorld(1, tiny, 2)
			h := reach(w, st)
			want, how := r.next[ev], Applied
			if want == fenced {
				want, how = st, Fenced
			}
			stranger := h
			stranger.Fence++
			if got := w.worker[0].store.Settle(stranger, Outcome{Event: ev, Reply: message(&stranger, 50)}); got != Fenced {
				t.Errorf("state %d, event %d of another fence: %d", st, ev, got)
			}
			stranger = h
			stranger.Holder++
			if got := w.worker[1].store.Settle(stranger, Outcome{Event: ev, Reply: message(&stranger, 50)}); got != Fenced {
				t.Errorf("state %d, event %d of another holder: %d", st, ev, got)
			}
			if got := w.worker[0].store.Settle(h, Outcome{Event: ev, Reply: message(&h, 50)}); got != how {
				t.Errorf("state %d, event %d: %d, want %d", st, ev, got, how)
			}
			if got, _ := stateOf(w, 0); got != want {
				t.Errorf("state %d, event %d: state %d, want %d", st, ev, got, want)
			}
			if w.broken != nil {
				t.Error(w.broken)
			}
		}
		for ev := Event(leaseEvents); ev <= events; ev++ {
			w := newWorld(1, tiny, 1)
			h := reach(w, st)
			if got := w.worker[0].store.Settle(h, Outcome{Event: ev}); got != Fenced {
				t.Errorf("state %d: the outside says event %d, which only the ledger sees: %d", st, ev, got)
			}
		}
	}
}

// The table as the contract prints it.
func TestContractTable(t *testing.T) {
	for st, want := range map[State][2]Verdict{
		Free:          {First, First},
		InFlight:      {RefusedInFlight, RefusedConflict},
		Completed:     {Replay, RefusedConflict},
		Unknown:       {RefusedUnknown, RefusedConflict},
		NotReplayable: {RefusedNotReplayable, RefusedConflict},
	} {
		if table[st].same != want[0] || table[st].other != want[1] {
			t.Errorf("state %d answers %d and %d, the contract says %v", st, table[st].same, table[st].other, want)
		}
		if st != Completed && table[st].next[Evict] != fenced {
			t.Errorf("state %d may be given up", st)
		}
		if table[st].timed != (st != InFlight && st != Free) {
			t.Errorf("state %d: ends by time: %v", st, table[st].timed)
		}
		for ev, next := range table[st].next {
			if next == fenced {
				continue
			}
			// Room is only ever taken by a claim, but for the tombstone of a worse word.
			if d := table[st].counts.minus(table[next].counts); d.entries < 0 || d.inFlight < 0 || d.tombs < 0 && st != Completed {
				t.Errorf("state %d, event %d takes room: %v", st, ev, d)
			}
		}
	}
}

// Case 39: just before and just after ttl, from the settlement; and window, from the
// claim.
func TestRetention(t *testing.T) {
	ms := Mono(time.Millisecond)
	for _, tt := range []struct {
		name   string
		window time.Duration
		end    Event
		after  Mono // from the settlement
		free   bool
	}{
		{"before ttl", 0, Complete, 30000*ms - 1, false},
		{"at ttl", 0, Complete, 30000 * ms, true},
		{"a tombstone before ttl", 0, MarkUnknown, 30000*ms - 1, false},
		{"a tombstone at ttl", 0, MarkUnknown, 30000 * ms, true},
		{"ttl over, window not", time.Minute, Complete, 50000*ms - 1, false},
		{"window over, ttl not", 20 * time.Second, Complete, 30000*ms - 1, false},
		{"both over", time.Minute, Complete, 50000 * ms, true},
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
		if (got == First) != tt.free {
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
		if a.Verdict != First || a.Lease.Attempt != n {
			t.Fatalf("attempt %d: %d, %d", n, a.Verdict, a.Lease.Attempt)
		}
		if n > 1 && (a.Prior.Attempt != n-1 || a.Prior.Session != 11 || a.Prior.Request != 22 || a.Prior.Settled == 0) {
			t.Errorf("attempt %d knows of the one before: %+v", n, a.Prior)
		}
		if k.settle(k.streams[0], MarkUnknown, 0) != Applied {
			t.Fatal("not settled")
		}
	}
	if a := w.worker[0].ask(c); a.Verdict != RefusedUnknown || a.Prior.Attempt != 3 {
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
	k.store.Settle(a.Lease, Outcome{Event: Complete, Reply: r})
	c := claimOf(0)
	if got := w.worker[1].ask(c).Verdict; got != RefusedNotReplayable {
		t.Errorf("a client without tasks: %d", got)
	}
	c.TakesTasks = true
	if got := w.worker[1].ask(c); got.Verdict != Replay || !got.Reply.Task || got.Prior.Claimed != a.Lease.Claimed {
		t.Errorf("a client with tasks: %+v", got)
	}
}
