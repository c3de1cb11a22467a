package schedule

import (
	"context"

	"github.com/callonce/callonce/hostsim/explore"
)

// Explored counts what [Every] has played.
type Explored = explore.Explored

// Every plays every order of a scenario's steps, and every outcome of its chances, until one fails, all are played (Whole) or limit runs
// have been. Of orders that differ only in steps that may be swapped (see [Touch]) it plays one, or a few where chances are taken. Which
// steps matter to each other is seen while they run; where two of them do that could have come the other way round, that way is played
// too (optimal dynamic partial order reduction, after Abdulla, Aronis, Jonsson and Sagonas, 2014).
//
// scenario is called for each run. What it gives must be the same each time, Host included, but for what has a run's own state: its
// functions and hooks. An error is a *Failure, or says what keeps the scenario from being explored: a run that cannot be repeated, a
// step that another makes impossible.
func Every(ctx context.Context, limit int, scenario func() Scenario) (Explored, error) {
	x := &exploring{}
	st := stage{again: true}
	defer st.close()
	return x.Every(limit, func() error { return st.play(ctx, scenario(), x) })
}

// exploring is the explorer as a chooser of options.
type exploring struct{ explore.Explorer }

// Choose implements Chooser.
func (x *exploring) Choose(options []Option) int {
	steps := make([]explore.Step, len(options))
	for i, o := range options {
		steps[i] = explore.Step{Actor: o.actor(), Name: o.Name}
	}
	return x.Explorer.Choose(steps)
}

// Chance implements Chooser.
func (x *exploring) Chance(int) bool { return x.Explorer.Chance() }
