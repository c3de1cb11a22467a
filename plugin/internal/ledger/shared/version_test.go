package shared

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
)

// The version before this one: it did not say what was called, nor why it settled.
const elderVersion = 1

// Where an entry has what these tests change, as docs of the record say.
const (
	offVersion = 42
	offState   = 43
)

const elderSize = 179

func toElder(e record.Entry) record.Entry {
	o := append(record.Entry(nil), e[:elderSize]...)
	o[offVersion] = elderVersion
	binary.LittleEndian.PutUint16(o, uint16(len(o)))
	return o
}

// rewriteEntries turns every entry of the table into what another build would have
// written.
func rewriteEntries(w *world, f func(record.Entry) record.Entry) {
	for n := range w.layout.Buckets {
		key := w.worker[0].store.buckets.Key(n)
		b := record.Bucket(w.cells[key].value)
		if len(b) == 0 {
			continue
		}
		out := record.AppendHeader(nil, b.Epoch(), b.Fence())
		b.Each(func(e record.Entry) bool {
			out = append(out, f(e)...)
			return true
		})
		w.set(nil, key, out, 0)
	}
}

// What the build before wrote is read, settles, replays, ends and is counted.
func TestPreviousVersion(t *testing.T) {
	w := newWorld(1, tiny, 2)
	a, b := w.worker[0], w.worker[1]
	for n := range 3 {
		want(t, "first", a.ask(claimOf(n)).Verdict, ledger.First)
	}
	a.settle(a.streams[0], ledger.Complete, 60)
	rewriteEntries(w, toElder)
	want(t, "completed", b.ask(claimOf(0)).Verdict, ledger.Replay)
	want(t, "in flight", b.ask(claimOf(1)).Verdict, ledger.RefusedInFlight)
	other := claimOf(1)
	other.Fingerprint[0]++
	want(t, "another call", b.ask(other).Verdict, ledger.RefusedConflict)
	if got := a.settle(a.streams[0], ledger.Complete, 60); got != ledger.Applied {
		t.Errorf("settled: %d", got)
	}
	want(t, "settled", b.ask(claimOf(1)).Verdict, ledger.Replay)
	w.heal(5 * time.Second)
	want(t, "orphaned", b.ask(claimOf(2)).Verdict, ledger.RefusedUnknown)
	w.watch.exact()
	w.now += ledger.Mono(time.Minute)
	w.heal(5 * time.Second)
	w.watch.none(ledger.InFlight, ledger.Completed, ledger.Unknown)
	w.watch.exact()
	sound(t, w)
}

// What this build cannot read refuses until its header's time, whatever its body
// says, and is never freed before, nor counted away.
func TestUnreadableVersion(t *testing.T) {
	for name, f := range map[string]func(record.Entry) record.Entry{
		"a later version": func(e record.Entry) record.Entry {
			e = append(record.Entry(nil), e...)
			e[offVersion] = 9
			return e
		},
		"a later version, longer": func(e record.Entry) record.Entry {
			e = append(append(record.Entry(nil), e...), "more"...)
			e[offVersion] = 9
			binary.LittleEndian.PutUint16(e, uint16(len(e)))
			return e
		},
		"a later version, nothing but its prefix": func(e record.Entry) record.Entry {
			e = append(record.Entry(nil), e[:record.PrefixSize]...)
			e[offVersion] = 9
			binary.LittleEndian.PutUint16(e, record.PrefixSize)
			return e
		},
		"an unknown state": func(e record.Entry) record.Entry {
			e = append(record.Entry(nil), e...)
			e[offState] = 77
			return e
		},
		"free, says its body": func(e record.Entry) record.Entry {
			e = append(record.Entry(nil), e...)
			e[offState] = byte(ledger.Free)
			return e
		},
		"this version, cut": func(e record.Entry) record.Entry {
			e = append(record.Entry(nil), e[:100]...)
			binary.LittleEndian.PutUint16(e, 100)
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
		k.settle(k.streams[0], ledger.Complete, 60)
		said := w.watch.said()
		rewriteEntries(w, f)
		for range 2 {
			want(t, name, w.worker[1].ask(c).Verdict, ledger.RefusedUnavailable)
			if got := k.store.Settle(h, ledger.Outcome{Event: ledger.MarkUnknown}); got != ledger.Fenced {
				t.Errorf("%s: settled: %d", name, got)
			}
			w.heal(5 * time.Second)
			for row, n := range said {
				if got := w.watch.said()[row]; got != n {
					t.Errorf("%s: a row says %v, before %v", name, got, n)
				}
			}
		}
		w.now = h.Claimed + ledger.Mono(30*time.Second)
		want(t, name+", after its time", w.worker[1].ask(c).Verdict, ledger.First)
		w.heal(5 * time.Second)
		w.watch.exact()
		sound(t, w)
	}
}
