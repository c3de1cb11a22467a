package shared

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

func queryOf(k *worker, n int) ledger.Query {
	id := idOf(n)
	return ledger.Query{Policy: numberOf("p"), Operation: binary.BigEndian.Uint64(id[:]), From: k.store.At(&id)}
}

// Pages show each key once, whatever their size, look at no more buckets than a page may, and write nothing.
func TestPages(t *testing.T) {
	layout := tiny
	layout.Buckets, layout.Ways = 2*pageBuckets+7, 64
	w := newWorld(1, layout, 2)
	k := w.worker[0]
	const keys = 700
	for n := range keys {
		c := claimOf(n)
		c.Limits, c.Tool = ledger.Limits{}, uint64(1+n%2)
		w.watch.allow(&c)
		k.ask(c)
		if n%2 == 0 {
			k.settle(k.streams[len(k.streams)-1], ledger.MarkUnknown, 0)
		}
	}
	for _, most := range []int{1, 100, 0} {
		seen, pages := map[uint64]int{}, 0
		for q := (ledger.Query{Policy: numberOf("p"), Most: most}); ; pages++ {
			w.gets, w.sets = 0, 0
			p, now := w.worker[1].store.List(ledger.Token{}, q)
			if !now || p.Failed || p.Hidden > 0 {
				t.Fatalf("%+v", p)
			}
			// A call in flight may have lost its holder: of each holder that is asked once.
			if w.gets > pageBuckets+2 || w.sets > 0 {
				t.Fatalf("a page takes %d reads and %d writes", w.gets, w.sets)
			}
			if most > 0 && len(p.Rows) >= most+layout.Ways {
				t.Errorf("%d rows on a page of %d", len(p.Rows), most)
			}
			for _, r := range p.Rows {
				seen[r.Operation]++
			}
			if q.From = p.Next; p.Next == "" {
				break
			}
		}
		if len(seen) != keys {
			t.Errorf("pages of %d: %d keys, want %d", most, len(seen), keys)
		}
		for _, times := range seen {
			if times != 1 {
				t.Fatal("a key is on two pages")
			}
		}
		if most == 0 && pages != 2 {
			t.Errorf("%d pages before the last, want 2", pages)
		}
	}
	for name, c := range map[string]struct {
		q    ledger.Query
		want int
	}{
		"another policy": {ledger.Query{Policy: 5}, 0}, "a state": {ledger.Query{States: 1 << ledger.Unknown}, 350}, "a tool": {ledger.Query{Tool: 2}, 350},
		"a scope": {ledger.Query{Scope: 201}, 175}, "young": {ledger.Query{MinAge: 1}, 0},
	} {
		if c.q.Policy == 0 {
			c.q.Policy = numberOf("p")
		}
		rows := 0
		for {
			p, _ := k.store.List(ledger.Token{}, c.q)
			if rows += len(p.Rows); p.Next == "" {
				break
			}
			c.q.From = p.Next
		}
		if rows != c.want {
			t.Errorf("%s: %d, want %d", name, rows, c.want)
		}
	}
	for _, from := range []string{"-1", "1031", "x", "99999999999999999999"} {
		if p, _ := k.store.List(ledger.Token{}, ledger.Query{Policy: numberOf("p"), From: from}); len(p.Rows) > 0 || p.Next != "" {
			t.Errorf("from %s: %+v", from, p)
		}
	}
	w.watch.exact()
}

// A key is shown as a claim would find it, and says how it came to be so.
func TestRowsSayWhy(t *testing.T) {
	w := newWorld(1, tiny, 2)
	k := w.worker[0]
	for n, o := range []ledger.Outcome{
		{Event: ledger.MarkUnknown, Why: ledger.Why{Cause: 9, Status: 503}},
		{Event: ledger.MarkNotReplayable, Why: ledger.Why{Cause: 8, Status: 200}},
	} {
		c := claimOf(n)
		c.Tool = 77
		k.ask(c)
		f := k.streams[0]
		k.streams = nil
		k.store.Settle(f.lease, o)
		p, _ := k.store.List(ledger.Token{}, queryOf(k, n))
		if len(p.Rows) != 1 || p.Rows[0].Why != o.Why || p.Rows[0].Tool != 77 || p.Rows[0].Attempt != 1 || p.Rows[0].Settled != w.now {
			t.Errorf("%+v", p)
		}
	}
	k.ask(claimOf(2))
	k.crash()
	w.now += ledger.Mono(4 * time.Second)
	if p, _ := w.worker[1].store.List(ledger.Token{}, queryOf(k, 2)); p.Rows[0].State != ledger.InFlight || p.Rows[0].Expires != 0 {
		t.Errorf("%+v", p)
	}
	w.now += ledger.Mono(time.Second)
	lost := ledger.Why{Cause: ledger.HolderLost}
	if p, _ := w.worker[1].store.List(ledger.Token{}, queryOf(k, 2)); p.Rows[0].State != ledger.Unknown || p.Rows[0].Why != lost {
		t.Errorf("%+v", p)
	}
	w.heal(5 * time.Second)
	if p, _ := w.worker[1].store.List(ledger.Token{}, queryOf(k, 2)); p.Rows[0].State != ledger.Unknown || p.Rows[0].Why != lost || p.Rows[0].Settled == 0 {
		t.Errorf("swept: %+v", p)
	}
	// Nor is anything shown that has ended.
	w.now += ledger.Mono(30 * time.Second)
	if p, _ := k.store.List(ledger.Token{}, ledger.Query{Policy: numberOf("p")}); len(p.Rows) != 0 {
		t.Errorf("%+v", p)
	}
}

// What an operator says of a key holds for a whole ttl, returns what it does not use any more, and is no more evicted.
func TestResolveHolds(t *testing.T) {
	for ev, want := range map[ledger.Event]ledger.Verdict{
		ledger.ResolveCompleted: ledger.Replay, ledger.ResolveReleased: ledger.First, ledger.ResolveRefused: ledger.RefusedUnknown,
	} {
		w := newWorld(1, tiny, 2)
		a, b := w.worker[0], w.worker[1]
		c := claimOf(0)
		c.Limits, c.RetryUnknown = small(true), true
		w.watch.allow(&c)
		a.ask(c)
		a.settle(a.streams[0], ledger.MarkUnknown, 0)
		w.now += ledger.Mono(29 * time.Second)
		var r ledger.Resolution
		b.begin("resolve", func() { r, _ = b.store.Resolve(ledger.Token{}, queryOf(b, 0), ev) })
		b.finish()
		if !r.Done || r.Row.State != ledger.Unknown {
			t.Fatalf("event %d: %+v", ev, r)
		}
		w.watch.exact()
		w.now += ledger.Mono(29 * time.Second)
		// Another key of its scope needs the room.
		for n := range 4 {
			other := claimOf(4 + 4*n)
			other.Limits = small(true)
			if a.ask(other).Verdict == ledger.First {
				a.settle(a.streams[len(a.streams)-1], ledger.Complete, 60)
			}
		}
		got := b.ask(c)
		if got.Verdict != want || (ev == ledger.ResolveCompleted) != got.Reply.Elsewhere {
			t.Errorf("event %d: %+v, want %d", ev, got, want)
		}
		if w.broken != nil {
			t.Errorf("event %d: %v", ev, w.broken)
		}
		w.heal(5 * time.Second)
		w.watch.exact()
		sound(t, w)
	}
}

// A key that is not there, of another policy, or that nobody said where it lies is not resolved.
func TestResolveFindsNobodyElses(t *testing.T) {
	w := newWorld(1, tiny, 1)
	k := w.worker[0]
	k.ask(claimOf(0))
	k.settle(k.streams[0], ledger.MarkUnknown, 0)
	q := queryOf(k, 0)
	for name, q := range map[string]ledger.Query{
		"another policy":    {Policy: 3, Operation: q.Operation, From: q.From},
		"another operation": {Policy: q.Policy, Operation: q.Operation + 1, From: q.From},
		"nowhere":           {Policy: q.Policy, Operation: q.Operation},
		"a wild place":      {Policy: q.Policy, Operation: q.Operation, From: "77"},
	} {
		if r, now := k.store.Resolve(ledger.Token{}, q, ledger.ResolveReleased); !now || r.Found || r.Done {
			t.Errorf("%s: %+v", name, r)
		}
	}
	w.fail = func(string) error { return errTable }
	if r, _ := k.store.Resolve(ledger.Token{}, q, ledger.ResolveReleased); !r.Failed {
		t.Errorf("a table that does not answer: %+v", r)
	}
	if p, _ := k.store.List(ledger.Token{}, q); !p.Failed {
		t.Errorf("a table that does not answer: %+v", p)
	}
}
