package shared

import (
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
)

// Counts of repeats take a bounded number of records of a bounded size, whatever comes; the
// one that ends first makes room; what others wrote there is left alone.
func TestRepeatsAreBounded(t *testing.T) {
	w := newWorld(1, tiny, 2)
	w.watch = nil
	for n := range 10_000 {
		if got := w.worker[n%2].store.Repeat(uint64(n), time.Minute); got != 1 {
			t.Fatalf("key %d: counted %d", n, got)
		}
	}
	records := 0
	for key, c := range w.cells {
		if !strings.HasPrefix(key, "callonce/test/n/") {
			continue
		}
		records++
		if len(c.value) > record.RepeatsHeader+record.MostRepeats*record.RepeatSize || !record.Repeats(c.value).Valid() {
			t.Errorf("%s: %d bytes", key, len(c.value))
		}
	}
	if records != repeatsKeys {
		t.Errorf("%d records, expected %d", records, repeatsKeys)
	}
	// A key that lasts is not pushed out by those that end sooner.
	k := w.worker[0].store
	if got := k.Repeat(7, time.Hour); got < 1 {
		t.Fatalf("counted %d", got)
	}
	before := k.Repeat(7, time.Hour)
	for n := range 10_000 {
		k.Repeat(uint64(20_000+n), time.Minute)
	}
	if got := w.worker[1].store.Repeat(7, time.Hour); got != before+1 {
		t.Errorf("a key that lasts: counted %d, expected %d", got, before+1)
	}
	// It begins anew after its time, and where the clock cannot be.
	w.now += ledger.Mono(2 * time.Hour)
	if got := k.Repeat(7, time.Hour); got != 1 {
		t.Errorf("after its time: counted %d", got)
	}
}

// The sweep writes records of its own beside the pages, and none of those over a count.
func TestRepeatsOutliveAPass(t *testing.T) {
	w := newWorld(1, tiny, 2)
	w.watch = nil
	k := w.worker[0].store
	for key := range uint64(200) {
		k.Repeat(key, time.Hour)
	}
	before := w.passes()
	for w.passes() < before+2 {
		w.pass(time.Second)
	}
	for key := range uint64(200) {
		if got := w.worker[1].store.Repeat(key, time.Hour); got != 2 {
			t.Fatalf("key %d after a pass of the sweep: counted %d, expected 2", key, got)
		}
	}
}
