package state

import (
	"testing"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// What a claim is told, what it must reserve and what it frees, by what was found and whether that has expired.
func TestPlanClaim(t *testing.T) {
	const now, ends = ledger.Mono(100), ledger.Mono(90)
	all := Counts{1, 1, 1}
	for _, tt := range []struct {
		name    string
		found   Found
		retry   bool
		want    Plan
		inPlace Counts // what is needed where the entry before counts in the same rows
	}{
		{"nothing", Found{}, false, Plan{Verdict: ledger.First, Attempt: 1, Need: all}, all},
		{"in flight, whatever the time", Found{State: ledger.InFlight, Same: true, Expires: ends}, false, Plan{Verdict: ledger.RefusedInFlight}, Counts{}},
		{"completed", Found{State: ledger.Completed, Same: true, Expires: now + 1}, false, Plan{Verdict: ledger.Replay}, Counts{}},
		{"completed, and expired at this very time", Found{State: ledger.Completed, Same: true, Expires: now, Attempt: 7}, false,
			Plan{Verdict: ledger.First, Attempt: 1, Need: all, Free: Counts{Entries: 1}}, Counts{InFlight: 1, Tombs: 1}},
		{"another call", Found{State: ledger.Completed, Expires: now + 1}, true, Plan{Verdict: ledger.RefusedConflict}, Counts{}},
		{"unknown", Found{State: ledger.Unknown, Same: true, Expires: now + 1}, false, Plan{Verdict: ledger.RefusedUnknown}, Counts{}},
		{"unknown, taken over", Found{State: ledger.Unknown, Same: true, Expires: now + 1, Attempt: 2}, true,
			Plan{Verdict: ledger.First, Attempt: 3, TakeOver: true, Need: all, Free: Counts{Entries: 1, Tombs: 1}}, Counts{InFlight: 1}},
		{"unknown, expired", Found{State: ledger.Unknown, Same: true, Expires: ends, Attempt: 2}, true,
			Plan{Verdict: ledger.First, Attempt: 1, Need: all, Free: Counts{Entries: 1, Tombs: 1}}, Counts{InFlight: 1}},
		{"not to be read", Found{Unreadable: true, Expires: now + 1}, true, Plan{Verdict: ledger.RefusedUnavailable}, Counts{}},
		{"not to be read, expired", Found{Unreadable: true, Expires: ends}, true, Plan{Verdict: ledger.First, Attempt: 1, Need: all}, all},
		{"unknown, taken over, though an operator refuses it", Found{State: ledger.Unknown, Same: true, Held: true, Expires: now + 1, Attempt: 1}, true, Plan{Verdict: ledger.RefusedUnknown}, Counts{}},
		{"a task's handle", Found{State: ledger.Completed, Same: true, Task: true, Expires: now + 1}, false, Plan{Verdict: ledger.RefusedNotReplayable}, Counts{}},
		{"a reply that is gone", Found{State: ledger.Completed, Same: true, Shed: true, Expires: now + 1}, false, Plan{Verdict: ledger.RefusedNotReplayable}, Counts{}},
		{"a state that is none", Found{State: ledger.NumStates, Same: true}, true, Plan{Verdict: ledger.RefusedUnavailable}, Counts{}},
	} {
		got := PlanClaim(&tt.found, &ledger.Claim{RetryUnknown: tt.retry}, now)
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
		if in := got.InPlace(); got.Verdict == ledger.First && (in.Need != tt.inPlace || in.Free != Counts{}) {
			t.Errorf("%s, in place: %+v, want %+v", tt.name, in, tt.inPlace)
		}
	}
}

// Only the lease that an entry holds settles it; and what is reserved before, less what is returned after, is what it uses more.
func TestSettleAndTurn(t *testing.T) {
	lease := ledger.Lease{Fence: 3, Holder: 4}
	for st := ledger.Free; st < ledger.NumStates; st++ {
		for ev := ledger.Event(0); ev <= ledger.NumEvents; ev++ {
			turned, ok := Turn(st, ev)
			if next, takes := Next(st, ev); takes != ok || ok && turned.Next != next {
				t.Errorf("state %d, event %d: %+v, %v", st, ev, turned, ok)
			}
			if ok && Uses(st).Plus(turned.Reserve).Minus(turned.Return) != Uses(turned.Next) {
				t.Errorf("state %d, event %d: %+v does not add up", st, ev, turned)
			}
			if r := turned.Return; r.Entries < 0 || r.InFlight < 0 || r.Tombs < 0 {
				t.Errorf("state %d, event %d returns %v", st, ev, r)
			}
			if worse := ok && st == ledger.Completed && turned.Next != ledger.Free; worse != (turned.Reserve != Counts{}) {
				t.Errorf("state %d, event %d reserves %v", st, ev, turned.Reserve)
			}
			f := Found{State: st, Fence: 3, Holder: 4}
			if got, did := Settle(&f, &lease, ev); did != ok || got != turned {
				t.Errorf("state %d, event %d of its lease: %+v, %v", st, ev, got, did)
			}
			for _, f := range []Found{{State: st, Fence: 2, Holder: 4}, {State: st, Fence: 3, Holder: 5}, {State: st, Fence: 3, Holder: 4, Unreadable: true}} {
				if got, did := Settle(&f, &lease, ev); did {
					t.Errorf("state %d, event %d of %+v: %+v", st, ev, f, got)
				}
			}
		}
	}
	if got := WithoutRoom(ledger.Completed); got != (Settlement{Next: ledger.Completed}) {
		t.Errorf("without room for a tombstone: %+v", got)
	}
}
