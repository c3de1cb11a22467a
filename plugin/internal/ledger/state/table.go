// Package state is the state machine of a key: what each state answers to a claim, what each event makes of it, and what it uses of
// the limits. It is pure, the same for every store; a store only has to make one compare-and-swap per key atomic.
package state

import "github.com/callonce/callonce/plugin/internal/ledger"

// Counts is what an entry uses of the limits: as an entry, in flight, and as a
// tombstone, spent or reserved.
type Counts struct{ Entries, InFlight, Tombs int32 }

// Plus adds, member by member.
func (a Counts) Plus(b Counts) Counts {
	return Counts{a.Entries + b.Entries, a.InFlight + b.InFlight, a.Tombs + b.Tombs}
}

// Minus subtracts, member by member.
func (a Counts) Minus(b Counts) Counts {
	return Counts{a.Entries - b.Entries, a.InFlight - b.InFlight, a.Tombs - b.Tombs}
}

// fenced marks an event that a state does not take.
const fenced ledger.State = 255

// row is what a state answers to a claim of the same or another fingerprint (retry:
// the same, where the claim may take an unknown outcome over), what each event makes
// of it, whether it ends by time, and what it uses.
type row struct {
	same, retry, other ledger.Verdict
	next               [ledger.NumEvents]ledger.State
	timed              bool
	uses               Counts
}

// table is the whole state machine. A settled entry takes a second settlement of its own
// holder only where that is worse: an answer whose end turned out broken, or a
// reply that was cut after it had been judged. Calls in flight and tombstones are never
// evicted. Operators resolve tombstones only, and free none whose call ran.
var table = [ledger.NumStates]row{
	ledger.Free: {
		same: ledger.First, retry: ledger.First, other: ledger.First,
		next: [ledger.NumEvents]ledger.State{
			ledger.Complete: fenced, ledger.Release: fenced, ledger.MarkUnknown: fenced, ledger.MarkNotReplayable: fenced,
			ledger.LoseLease: fenced, ledger.Evict: fenced,
			ledger.ResolveCompleted: fenced, ledger.ResolveReleased: fenced, ledger.ResolveRefused: fenced,
		},
	},
	ledger.InFlight: {
		same: ledger.RefusedInFlight, retry: ledger.RefusedInFlight, other: ledger.RefusedConflict,
		next: [ledger.NumEvents]ledger.State{
			ledger.Complete: ledger.Completed, ledger.Release: ledger.Free, ledger.MarkUnknown: ledger.Unknown, ledger.MarkNotReplayable: ledger.NotReplayable,
			ledger.LoseLease: ledger.Unknown, ledger.Evict: fenced,
			ledger.ResolveCompleted: fenced, ledger.ResolveReleased: fenced, ledger.ResolveRefused: fenced,
		},
		uses: Counts{Entries: 1, InFlight: 1, Tombs: 1},
	},
	ledger.Completed: {
		same: ledger.Replay, retry: ledger.Replay, other: ledger.RefusedConflict,
		next: [ledger.NumEvents]ledger.State{
			ledger.Complete: fenced, ledger.Release: fenced, ledger.MarkUnknown: ledger.Unknown, ledger.MarkNotReplayable: ledger.NotReplayable,
			ledger.LoseLease: fenced, ledger.Evict: ledger.Free,
			ledger.ResolveCompleted: fenced, ledger.ResolveReleased: fenced, ledger.ResolveRefused: fenced,
		},
		timed: true,
		uses:  Counts{Entries: 1},
	},
	ledger.Unknown: {
		same: ledger.RefusedUnknown, retry: ledger.First, other: ledger.RefusedConflict,
		next: [ledger.NumEvents]ledger.State{
			ledger.Complete: fenced, ledger.Release: fenced, ledger.MarkUnknown: fenced, ledger.MarkNotReplayable: fenced,
			ledger.LoseLease: fenced, ledger.Evict: fenced,
			ledger.ResolveCompleted: ledger.Completed, ledger.ResolveReleased: ledger.Free, ledger.ResolveRefused: ledger.Unknown,
		},
		timed: true,
		uses:  Counts{Entries: 1, Tombs: 1},
	},
	ledger.NotReplayable: {
		same: ledger.RefusedNotReplayable, retry: ledger.RefusedNotReplayable, other: ledger.RefusedConflict,
		next: [ledger.NumEvents]ledger.State{
			ledger.Complete: fenced, ledger.Release: fenced, ledger.MarkUnknown: ledger.Unknown, ledger.MarkNotReplayable: fenced,
			ledger.LoseLease: fenced, ledger.Evict: fenced,
			ledger.ResolveCompleted: ledger.Completed, ledger.ResolveReleased: fenced, ledger.ResolveRefused: fenced,
		},
		timed: true,
		uses:  Counts{Entries: 1, Tombs: 1},
	},
}

// Uses is what an entry of a state uses of the limits.
func Uses(s ledger.State) Counts { return table[s].uses }

// Timed reports whether entries of a state end by time.
func Timed(s ledger.State) bool { return table[s].timed }
