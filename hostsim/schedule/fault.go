package schedule

import "time"

// Kind is what goes wrong. Each kind has its occasions.
type Kind uint8

const (
	// Crash ends a worker's VM at an access to shared data, which then does not happen.
	Crash Kind = iota
	// RefuseCAS lets the store refuse a set as if another had been quicker: one that names a cas, since without one nobody can be.
	RefuseCAS
	// The following are for the scenario's server, which asks at each request that reaches it.
	ResetBefore    // the connection breaks before the server has done anything
	ResetAfterBody // … once it has done its work, before any answer
	CutReply       // … in the middle of its answer
	Slow           // the answer takes By
	Dead           // no answer ever comes
	// ClientGone is for the scenario's clients, which ask at each step of an open call.
	ClientGone
	// ClockJump is for the scenario's clock, which asks at each step, and then moves by By.
	ClockJump
)

var kindNames = [...]string{"crash", "refuse cas", "reset before", "reset after body", "cut reply", "slow", "dead", "client gone", "clock jump"}

func (k Kind) String() string { return kindNames[k] }

// Fault says when something goes wrong. Any number of faults may be combined.
type Fault struct {
	Kind Kind
	// At strikes at that occasion of the kind, counted from 1. Else it strikes once in OneIn occasions, by the chooser; exhaustive
	// exploration tries both.
	At, OneIn int
	// Max is how often it strikes at most; 0 means once.
	Max int
	// By is how long Slow and ClockJump take.
	By time.Duration
}

// Strike counts an occasion of a kind and reports whether a fault strikes. Outside of steps, as in Prepare and End, none does.
func (w *World) Strike(k Kind) bool {
	_, struck := w.StrikeBy(k)
	return struck
}

// StrikeBy is Strike for kinds that last.
func (w *World) StrikeBy(k Kind) (time.Duration, bool) {
	if !w.playing() {
		return 0, false
	}
	for i, f := range w.scenario.Faults {
		if f.Kind != k || w.struck[i] >= max(f.Max, 1) {
			continue
		}
		w.seen[i]++
		if f.At > 0 {
			w.Touch(faultTouch(k), true) // which occasion it is depends on all others
		}
		if f.At > 0 && w.seen[i] == f.At || f.At == 0 && f.OneIn > 0 && w.chooser.Chance(f.OneIn) {
			w.struck[i]++
			w.Touch(faultTouch(k), true)
			return f.By, true
		}
	}
	return 0, false
}

func faultTouch(k Kind) string { return "fault " + k.String() }

// Struck counts how often faults of a kind have struck.
func (w *World) Struck(k Kind) int {
	w.Touch(faultTouch(k), false)
	n := 0
	for i, f := range w.scenario.Faults {
		if f.Kind == k {
			n += w.struck[i]
		}
	}
	return n
}
