package schedule

import (
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
