package ledger

import (
	"testing"
	"time"
)

// A made-up version before this one: it had no session, no request and no attempt.
const elderVersion = 0

var elderSize = entrySize - 16

func toElder(e entry) entry {
	o := append(entry(nil), e[:offSession]...)
	o = append(o, e[offClaimed:]...)
	o[offVersion] = elderVersion
	le.PutUint16(o, uint16(len(o)))
	return o
}

func fromElder(o entry) entry {
	if len(o) != elderSize {
		return nil
	}
	e := append(entry(nil), o[:offSession]...)
	e = append(e, make([]byte, 16)...)
	e = append(e, o[offSession:]...)
	e[offVersion] = entryVersion
	le.PutUint16(e, entrySize)
	return e
}

func withElder(t *testing.T) {
	previous.version, previous.read = elderVersion, fromElder
	t.Cleanup(func() { previous.version, previous.read = 0, nil })
}

// rewriteEntries turns every entry of the table into what another build would have
// written.
func rewriteEntries(w *world, f func(entry) entry) {
	for n := range w.layout.Buckets {
		key := w.worker[0].store.bucketKey(n)
		b := bucket(w.cells[key].value)
		if len(b) == 0 {
			continue
		}
		out := appendHeader(nil, b.epoch(), b.fence())
		b.each(func(e entry) bool {
			out = append(out, f(e)...)
			return true
		})
		w.set(nil, key, out, 0)
	}
}

// What the build before wrote is read, settles, replays, ends and is counted.
func TestPreviousVersion(t *testing.T) {
	withElder(t)
	w := newWorld(1, tiny, 2)
	a, b := w.worker[0], w.worker[1]
	for n := range 3 {
		want(t, "first", a.ask(claimOf(n)).Verdict, First)
	}
	a.settle(a.streams[0], Complete, 60)
	rewriteEntries(w, toElder)
	want(t, "completed", b.ask(claimOf(0)).Verdict, Replay)
	want(t, "in flight", b.ask(claimOf(1)).Verdict, RefusedInFlight)
	other := claimOf(1)
	other.Fingerprint[0]++
	want(t, "another call", b.ask(other).Verdict, RefusedConflict)
	if got := a.settle(a.streams[0], Complete, 60); got != Applied {
		t.Errorf("settled: %d", got)
	}
	want(t, "settled", b.ask(claimOf(1)).Verdict, Replay)
	w.heal(5 * time.Second)
	want(t, "orphaned", b.ask(claimOf(2)).Verdict, RefusedUnknown)
	w.watch.exact()
	w.now += Mono(time.Minute)
	w.heal(5 * time.Second)
	w.watch.none(InFlight, Completed, Unknown)
	w.watch.exact()
	sound(t, w)
}

// What this build cannot read refuses until its header's time, whatever its body
// says, and is never freed before, nor counted away.
func TestUnreadableVersion(t *testing.T) {
	for name, f := range map[string]func(entry) entry{
		"a later version": func(e entry) entry {
			e = append(entry(nil), e...)
			e[offVersion] = 9
			return e
		},
		"a later version, longer": func(e entry) entry {
			e = append(append(entry(nil), e...), "more"...)
			e[offVersion] = 9
			le.PutUint16(e, uint16(len(e)))
			return e
		},
		"a later version, nothing but its prefix": func(e entry) entry {
			e = append(entry(nil), e[:prefixSize]...)
			e[offVersion] = 9
			le.PutUint16(e, prefixSize)
			return e
		},
		"an unknown state": func(e entry) entry {
			e = append(entry(nil), e...)
			e[offState] = 77
			return e
		},
		"free, says its body": func(e entry) entry {
			e = append(entry(nil), e...)
			e[offState] = byte(Free)
			return e
		},
		"this version, cut": func(e entry) entry {
			e = append(entry(nil), e[:100]...)
			le.PutUint16(e, 100)
			return e
		},
	} {
		w := newWorld(1, tiny, 2)
		k := w.worker[0]
		c := claimOf(0)
		c.Limits = small(true)
		w.watch.allow(&c)
		k.ask(c)
		h := k.streams[0].lease
		k.settle(k.streams[0], Complete, 60)
		said := w.watch.said()
		rewriteEntries(w, f)
		for range 2 {
			want(t, name, w.worker[1].ask(c).Verdict, RefusedUnavailable)
			if got := k.store.Settle(h, Outcome{Event: MarkUnknown}); got != Fenced {
				t.Errorf("%s: settled: %d", name, got)
			}
			w.heal(5 * time.Second)
			for row, n := range said {
				if got := w.watch.said()[row]; got != n {
					t.Errorf("%s: a row says %v, before %v", name, got, n)
				}
			}
		}
		w.now = h.Claimed + Mono(30*time.Second)
		want(t, name+", after its time", w.worker[1].ask(c).Verdict, First)
		w.heal(5 * time.Second)
		w.watch.exact()
		sound(t, w)
	}
}
