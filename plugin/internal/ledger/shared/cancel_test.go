package shared

import (
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
)

// inFlight starts a call of a scope and gives when it was claimed.
func inFlight(t *testing.T, w *world, n int, scope uint64) ledger.Mono {
	t.Helper()
	c := claimOf(n)
	c.Scope = scope
	a, _ := w.worker[0].store.Ask(ledger.Token{}, c)
	if a.Verdict != ledger.First {
		t.Fatalf("verdict %d", a.Verdict)
	}
	return a.Lease.Claimed
}

// A mark is seen by every worker, by the call that it names and by no other, and not by
// one of the same name that was claimed after it.
func TestCancelled(t *testing.T) {
	w := newWorld(1, tiny, 2)
	one, other := w.worker[0].store, w.worker[1].store
	c := ledger.Cancellation{Scope: 7, Session: 1, Request: 2}
	claimed := inFlight(t, w, 0, 7)
	w.now++
	if one.Cancelled(c, claimed) {
		t.Fatal("cancelled before anybody did")
	}
	one.Cancel(c)
	for _, s := range []*Shared{one, other} {
		if !s.Cancelled(c, claimed) {
			t.Error("the cancellation is not seen")
		}
		for _, stranger := range []ledger.Cancellation{
			{Scope: 8, Session: 1, Request: 2}, {Scope: 7, Session: 0, Request: 2}, {Scope: 7, Session: 2, Request: 1}, {Scope: 7, Session: 1, Request: 3},
		} {
			if s.Cancelled(stranger, claimed) {
				t.Errorf("%+v is touched", stranger)
			}
		}
	}
	w.now += ledger.Mono(time.Second)
	again := inFlight(t, w, 1, 7)
	if one.Cancelled(c, again) {
		t.Error("a later call of the same name is touched")
	}
	w.now++
	other.Cancel(c)
	if !one.Cancelled(c, again) {
		t.Error("the second cancellation is not seen")
	}
}

// Only who has calls in flight sets marks, and who floods the table pushes out its own.
func TestFloodOfCancellations(t *testing.T) {
	w := newWorld(1, tiny, 1)
	s := w.worker[0].store
	before, _ := w.size()
	for n := range 5000 {
		s.Cancel(ledger.Cancellation{Scope: uint64(n % 50), Request: uint64(n)})
	}
	if after, _ := w.size(); after != before {
		t.Fatalf("%d records from callers that have no call in flight", after-before)
	}
	claimed := inFlight(t, w, 0, 7)
	mine := make([]ledger.Cancellation, 64)
	for i := range mine {
		mine[i] = ledger.Cancellation{Scope: 7, Request: uint64(i)}
		s.Cancel(mine[i])
	}
	inFlight(t, w, 1, 8)
	w.now++
	for n := range 20_000 {
		s.Cancel(ledger.Cancellation{Scope: 8, Request: uint64(n)})
	}
	for _, c := range mine {
		if !s.Cancelled(c, claimed) {
			t.Fatalf("%+v was pushed out by another's", c)
		}
	}
	keys := 0
	for key, c := range w.cells {
		if strings.HasPrefix(key, "callonce/test/x/") {
			keys++
			if len(c.value) > record.MarksHeader+record.MostMarks*record.MarkSize {
				t.Errorf("%s: %d bytes", key, len(c.value))
			}
		}
	}
	if keys > marksKeys {
		t.Errorf("%d records, expected at most %d", keys, marksKeys)
	}
}

// Where marks cannot be read, a call may have been cancelled; foreign bytes are left
// alone.
func TestForeignMarks(t *testing.T) {
	w := newWorld(1, tiny, 1)
	s := w.worker[0].store
	claimed := inFlight(t, w, 0, 7)
	c := ledger.Cancellation{Scope: 7, Request: 2}
	key, _ := s.markOf(&c)
	for _, value := range []string{"", "foreign", "cx\x01", "cx\x02\x00", "cx\x01\x00" + strings.Repeat("x", record.MarkSize-1), "cx\x01\x00" + strings.Repeat("x", record.MarkSize*(record.MostMarks+1))} {
		w.set(nil, key, []byte(value), 0)
		s.Cancel(c)
		if !s.Cancelled(c, claimed) || string(w.cells[key].value) != value {
			t.Errorf("%q: cancelled %v, and now %q", value, s.Cancelled(c, claimed), w.cells[key].value)
		}
	}
}
