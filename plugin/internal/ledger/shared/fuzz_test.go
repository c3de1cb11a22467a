package shared

import (
	"bytes"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
)

// one is a table of one bucket and one page, for records of any bytes.
var oneOfEach = Layout{Buckets: 1, Ways: 8, PieceBytes: 64, Pages: 1, Holders: 2, SweepSteps: 10}

// lived is a table in which something of everything has happened.
func lived() *world {
	w := newWorld(1, oneOfEach, 1)
	w.watch = nil
	k := w.worker[0]
	for n, ev := range []ledger.Event{ledger.Complete, ledger.MarkUnknown, ledger.MarkNotReplayable, ledger.Complete} {
		a, _ := k.store.Ask(ledger.Token{}, claimOf(n))
		k.store.Settle(a.Lease, ledger.Outcome{Event: ev, Reply: message(&a.Lease, 50)})
	}
	k.store.Ask(ledger.Token{Stream: 1}, claimOf(4))
	k.streams = []*flow{{token: ledger.Token{Stream: 1}}}
	k.tick()
	return w
}

// live does something of everything with a table, whatever is in it.
func live(t *testing.T, w *world) {
	k := w.worker[0]
	for n := range 6 {
		c := claimOf(n)
		c.RetryUnknown = n%2 == 0
		c.Limits = small(n%3 == 0)
		steps := w.steps
		a, _ := k.store.Ask(ledger.Token{}, c)
		if a.Verdict == ledger.Replay && (a.Reply.IDStart >= a.Reply.IDEnd || a.Reply.IDEnd > len(a.Reply.Message)) {
			t.Fatalf("a reply whose id stands at %d to %d of %d bytes", a.Reply.IDStart, a.Reply.IDEnd, len(a.Reply.Message))
		}
		if a.Verdict == ledger.First {
			k.store.Settle(a.Lease, ledger.Outcome{Event: ledger.Event(n % ledger.NumHolderEvents), Reply: message(&a.Lease, 50)})
		}
		if w.steps-steps > 10_000 {
			t.Fatalf("one claim took %d calls of the table", w.steps-steps)
		}
	}
	for range 4 {
		k.tick()
		w.now += ledger.Mono(10 * time.Second)
	}
}

func fuzzRecord(f *testing.F, key string) {
	v := lived().cells["callonce/test/"+key].value
	f.Add(v)
	f.Add(v[:len(v)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		w := lived()
		w.set(nil, "callonce/test/"+key, b, 0)
		live(t, w)
	})
}

func FuzzBucket(f *testing.F) {
	b := lived().cells["callonce/test/b/0"].value
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add(b[:record.BucketHeader])
	f.Fuzz(func(t *testing.T, b []byte) {
		w := lived()
		w.set(nil, "callonce/test/b/0", b, 0)
		before := bytes.Clone(b)
		live(t, w)
		if after := w.cells["callonce/test/b/0"].value; (len(b) == 0 || !record.ValidBucket(b)) && !bytes.Equal(before, after) {
			t.Fatal("foreign bytes were written over")
		}
		if after := record.Bucket(w.cells["callonce/test/b/0"].value); record.ValidBucket(b) && len(b) > 0 && !record.ValidBucket(after) {
			t.Fatal("a valid bucket became a broken one")
		}
	})
}

func FuzzPage(f *testing.F) { fuzzRecord(f, "p/0") }

func FuzzReply(f *testing.F) { fuzzRecord(f, "r/0/0") }

func FuzzSmallRecords(f *testing.F) {
	w := lived()
	f.Add(w.cells["callonce/test/h/0"].value, w.cells["callonce/test/c/0"].value, w.cells["callonce/test/s"].value)
	f.Fuzz(func(t *testing.T, h, c, s []byte) {
		w := lived()
		w.set(nil, "callonce/test/h/0", h, 0)
		w.set(nil, "callonce/test/c/0", c, 0)
		w.set(nil, "callonce/test/s", s, 0)
		live(t, w)
	})
}
