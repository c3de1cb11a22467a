package schedule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
)

// Chooser decides which step comes next, and whether a fault strikes. Use [Random], or [Every], which has one of its own.
type Chooser interface {
	// Choose returns the place of one of options, of which there is at least one; below 0 it ends the run as one that need not be played.
	Choose(options []Option) int
	// Chance reports whether what happens once in n occasions happens now.
	Chance(n int) bool
}

// Random chooses by a seed other than 0.
func Random(seed uint64) Chooser {
	return &randomly{seed: seed, rng: rand.New(rand.NewPCG(seed, 0x5eed))}
}

type randomly struct {
	seed uint64
	rng  *rand.Rand
}

func (r *randomly) Choose(options []Option) int {
	total := 0
	for _, o := range options {
		total += max(o.Weight, 1)
	}
	at := r.rng.IntN(total)
	for i, o := range options {
		if at -= max(o.Weight, 1); at < 0 {
			return i
		}
	}
	return len(options) - 1
}

func (r *randomly) Chance(n int) bool { return r.rng.IntN(n) == 0 }

// Explored counts what [Every] has played.
type Explored struct {
	Schedules int // to their end
	Redundant int // broken off: the same as another but for steps that may be swapped
	Whole     bool
}

// Every plays every order of a scenario's steps, and every chance, until one fails, all are played (Whole) or limit runs have been. Of
// orders that differ only in the order of steps that have nothing to do with each other it plays one (sleep sets). The scenario
// is made anew for each run.
func Every(ctx context.Context, limit int, scenario func() Scenario) (Explored, error) {
	var e Explored
	x := &explorer{}
	for e.Schedules+e.Redundant < limit {
		err := Play(ctx, scenario(), x)
		var f *Failure
		switch {
		case err == nil:
			e.Schedules++
		case errors.As(err, &f) && f.Err == errRedundant:
			e.Redundant++
		default:
			return e, err
		}
		if x.mismatch != nil {
			return e, x.mismatch
		}
		if !x.next() {
			e.Whole = true
			return e, nil
		}
	}
	return e, nil
}

// explorer walks the tree of choices depth first; each run follows the path so far and goes on with first choices.
type explorer struct {
	path     []*node
	depth    int
	mismatch error
}

type node struct {
	options []Option
	at      int
	chance  bool
	// sleep holds steps whose turn here leads nowhere new.
	sleep map[string]Option
}

func (x *explorer) Choose(options []Option) int {
	if n := x.known(); n != nil {
		if n.chance || len(n.options) != len(options) || n.options[n.at].Name != options[n.at].Name {
			x.mismatch = fmt.Errorf("a run cannot be repeated: at step %d want %q, got %d options", x.depth, n.options[n.at].Name, len(options))
			return -1
		}
		return n.at
	}
	n := &node{options: options, at: -1, sleep: x.inherited()}
	x.path = append(x.path, n)
	x.depth++
	if !n.advance() {
		return -1
	}
	return n.at
}

// advance takes the next option that is not asleep; the one before goes to sleep.
func (n *node) advance() bool {
	if n.at >= 0 && !n.chance {
		n.sleep[n.options[n.at].Name] = n.options[n.at]
	}
	for n.at++; n.at < len(n.options); n.at++ {
		if _, asleep := n.sleep[n.options[n.at].Name]; n.chance || !asleep {
			return true
		}
	}
	return false
}

func (x *explorer) Chance(int) bool {
	if n := x.known(); n != nil {
		return n.at == 1
	}
	x.path = append(x.path, &node{options: make([]Option, 2), chance: true, sleep: x.inherited()})
	x.depth++
	return false
}

func (x *explorer) known() *node {
	if x.depth >= len(x.path) {
		return nil
	}
	n := x.path[x.depth]
	x.depth++
	return n
}

// inherited are the sleepers of the last node that its choice did not wake: those that have nothing to do with it.
func (x *explorer) inherited() map[string]Option {
	out := map[string]Option{}
	if len(x.path) == 0 {
		return out
	}
	last := x.path[len(x.path)-1]
	for name, o := range last.sleep {
		if last.chance || independent(o, last.options[last.at]) {
			out[name] = o
		}
	}
	return out
}

func independent(a, b Option) bool {
	if a.Touches == nil || b.Touches == nil {
		return false
	}
	for _, x := range a.Touches {
		for _, y := range b.Touches {
			if x.What == y.What && (x.Writes || y.Writes) {
				return false
			}
		}
	}
	return true
}

// next moves on to the next path. It is false when there is none.
func (x *explorer) next() bool {
	x.depth = 0
	for len(x.path) > 0 {
		n := x.path[len(x.path)-1]
		if n.at < len(n.options) && n.advance() {
			return true
		}
		x.path = x.path[:len(x.path)-1]
	}
	return false
}
