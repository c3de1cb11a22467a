package shared

import (
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
)

// ringBytes are the bytes of messages that a ring holds, and its pieces in use.
func ringBytes(w *world, ring string) (bytes, pieces int) {
	for k, c := range w.cells {
		if strings.HasPrefix(k, "callonce/test/r/"+ring+"/") {
			pieces++
			bytes += max(len(c.value)-record.ReplyHeader, 0)
		}
	}
	return bytes, pieces
}

func complete(t *testing.T, w *world, n, budget, size int) {
	t.Helper()
	c := claimOf(n)
	c.Budget.Bytes = budget
	k := w.worker[0]
	if v := k.ask(c).Verdict; v != ledger.First {
		t.Fatalf("key %d: %d", n, v)
	}
	how := ledger.Applied
	if size > budget {
		how |= ledger.Unkept
	}
	if got := k.settle(k.streams[0], ledger.Complete, size); got != how {
		t.Fatalf("key %d settled: %d, want %d", n, got, how)
	}
}

// Case 53, and the bound: under pressure the oldest replies go, and a key whose reply
// went is not replayable, until its ttl.
func TestShedding(t *testing.T) {
	layout := tiny
	layout.Ways = 64
	w := newWorld(1, layout, 1)
	const budget = 5 * 64
	for n := range 40 {
		complete(t, w, n, budget, 44+n*7%100)
		if bytes, pieces := ringBytes(w, "0"); bytes > budget || pieces > 5 {
			t.Fatalf("after reply %d the ring holds %d bytes in %d pieces, budget %d", n, bytes, pieces, budget)
		}
		if n > 0 {
			want(t, "the youngest", w.worker[0].ask(claimOf(n)).Verdict, ledger.Replay)
		}
	}
	replays := 0
	for n := range 40 {
		switch v := w.worker[0].ask(claimOf(n)).Verdict; v {
		case ledger.Replay:
			if replays++; n < 34 {
				t.Errorf("reply %d outlived younger ones", n)
			}
		case ledger.RefusedNotReplayable:
		default:
			t.Errorf("key %d: %d", n, v)
		}
	}
	if replays < 2 || replays > 5 {
		t.Errorf("%d replies left", replays)
	}
	w.heal(5 * time.Second)
	if got := w.notices[ledger.Shed]; got < 35 || got > 40-replays {
		t.Errorf("shed %d, replayed %d of 40", got, replays)
	}
	want(t, "swept", w.worker[0].ask(claimOf(0)).Verdict, ledger.RefusedNotReplayable)
	w.now += ledger.Mono(time.Minute)
	want(t, "after its ttl", w.worker[0].ask(claimOf(0)).Verdict, ledger.First)
	sound(t, w)
}

// A reply as large as the whole ring fits; one byte more does not.
func TestLargestReply(t *testing.T) {
	for _, budget := range []int{50, 64, 100, 128, 300} {
		w := newWorld(1, tiny, 1)
		complete(t, w, 0, budget, budget)
		want(t, "as large as the ring", w.worker[0].ask(claimOf(0)).Verdict, ledger.Replay)
		complete(t, w, 1, budget, budget+1)
		want(t, "one byte more", w.worker[0].ask(claimOf(1)).Verdict, ledger.RefusedNotReplayable)
		want(t, "which sheds nothing", w.worker[0].ask(claimOf(0)).Verdict, ledger.Replay)
		if bytes, _ := ringBytes(w, "0"); bytes > budget {
			t.Errorf("budget %d: %d bytes", budget, bytes)
		}
	}
}

// A smaller budget takes hold as replies are written; a larger one at once. Two
// configurations may go on side by side.
func TestChangedBudget(t *testing.T) {
	layout := tiny
	layout.Ways = 200
	w := newWorld(1, layout, 1)
	n := 0
	write := func(times, budget int) {
		for range times {
			complete(t, w, n, budget, 43+n%60)
			want(t, "the youngest", w.worker[0].ask(claimOf(n)).Verdict, ledger.Replay)
			n++
		}
	}
	write(60, 40*64)
	if bytes, _ := ringBytes(w, "0"); bytes < 20*64 {
		t.Fatalf("only %d bytes in a ring of %d", bytes, 40*64)
	}
	write(5, 4*64)
	if bytes, _ := ringBytes(w, "0"); bytes > 4*64 {
		t.Errorf("a budget of %d: %d bytes", 4*64, bytes)
	}
	write(20, 12*64)
	for range 10 {
		write(1, 4*64)
		write(1, 12*64)
		if bytes, _ := ringBytes(w, "0"); bytes > 12*64 {
			t.Errorf("budgets of %d and %d: %d bytes", 4*64, 12*64, bytes)
		}
	}
	sound(t, w)
}

// Case 46: the slot of a reply goes to another key between a reader's two reads.
func TestSlotReusedBetweenReads(t *testing.T) {
	for steps := range 4 {
		w := newWorld(1, tiny, 2)
		// In different buckets both get the same fence: only the id tells them apart.
		a, other := idOf(0), 1
		for b := idOf(other); w.worker[0].store.buckets.Of(&a) == w.worker[0].store.buckets.Of(&b); b = idOf(other) {
			other++
		}
		complete(t, w, 0, 64, 60)
		var got ledger.Answer
		k := w.worker[1]
		k.begin("ask", func() { got = k.ask(claimOf(0)) })
		for range steps {
			k.step()
		}
		complete(t, w, other, 64, 60)
		k.finish()
		if got.Verdict == ledger.Replay && [32]byte(got.Reply.Message[2:]) != idOf(0) {
			t.Errorf("after %d steps: the reply of another key", steps)
		}
		if steps < 3 {
			want(t, "reused", got.Verdict, ledger.RefusedNotReplayable)
		}
		sound(t, w)
	}
}

// A reply of an earlier run of the same key is not that of this one.
func TestReplyOfAnEarlierRun(t *testing.T) {
	w := newWorld(1, tiny, 1)
	k := w.worker[0]
	complete(t, w, 0, 256, 60)
	old := w.cells[k.store.replyKey(0, 0)].value
	w.now += ledger.Mono(time.Minute)
	complete(t, w, 0, 256, 60)
	// A stalled writer wakes up and writes over the new one.
	w.set(nil, k.store.replyKey(0, 1), old, 0)
	want(t, "overwritten by the run before", k.ask(claimOf(0)).Verdict, ledger.RefusedNotReplayable)
	sound(t, w)
}
