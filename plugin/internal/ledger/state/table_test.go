package state

import (
	"testing"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// The table as the contract prints it.
func TestContractTable(t *testing.T) {
	for st, want := range map[ledger.State][2]ledger.Verdict{
		ledger.Free:          {ledger.First, ledger.First},
		ledger.InFlight:      {ledger.RefusedInFlight, ledger.RefusedConflict},
		ledger.Completed:     {ledger.Replay, ledger.RefusedConflict},
		ledger.Unknown:       {ledger.RefusedUnknown, ledger.RefusedConflict},
		ledger.NotReplayable: {ledger.RefusedNotReplayable, ledger.RefusedConflict},
	} {
		if table[st].same != want[0] || table[st].other != want[1] {
			t.Errorf("state %d answers %d and %d, the contract says %v", st, table[st].same, table[st].other, want)
		}
		if st != ledger.Completed && table[st].next[ledger.Evict] != fenced {
			t.Errorf("state %d may be given up", st)
		}
		if table[st].timed != (st != ledger.InFlight && st != ledger.Free) {
			t.Errorf("state %d: ends by time: %v", st, table[st].timed)
		}
		for ev, next := range table[st].next {
			if next == fenced {
				continue
			}
			// Room is only ever taken by a claim, but for the tombstone of a worse word.
			if d := Uses(st).Minus(Uses(next)); d.Entries < 0 || d.InFlight < 0 || d.Tombs < 0 && st != ledger.Completed {
				t.Errorf("state %d, event %d takes room: %v", st, ev, d)
			}
		}
	}
}
