package explore

import "slices"

// Touch is something that a step reads or changes. Two steps of different actors that touch nothing in common, or only read it, may be
// swapped: neither can tell which of them was first.
type Touch struct {
	What   string
	Writes bool
}

// Footprint is what one step did, as far as other steps can tell.
type Footprint struct {
	touches []Touch
	// Everything says that the step depends on all others.
	Everything bool
	// Made and Used are tokens: a step that uses one cannot come before the step that makes it.
	Made, Used []string
}

// Touch adds to what the step did.
func (a *Footprint) Touch(t Touch) {
	for i, have := range a.touches {
		if have.What == t.What {
			a.touches[i].Writes = have.Writes || t.Writes
			return
		}
	}
	a.touches = append(a.touches, t)
}

func (a *Footprint) conflicts(b *Footprint) bool {
	if a.Everything || b.Everything {
		return true
	}
	for _, x := range a.touches {
		for _, y := range b.touches {
			if x.What == y.What && (x.Writes || y.Writes) {
				return true
			}
		}
	}
	return false
}

func (a *Footprint) equal(b *Footprint) bool {
	return a.Everything == b.Everything && slices.Equal(a.touches, b.touches) && slices.Equal(a.Made, b.Made) && slices.Equal(a.Used, b.Used)
}

// event is a step that was taken.
type event struct {
	Footprint
	actor, name string
	// struck are the outcomes of the chances that the step took, in order.
	struck []bool
	// after are the events without which this one could not have been: they made it possible, or something that it uses.
	after []*event
}

// before says that a, which came first, did so because it had to, or makes a difference to b.
func (a *event) before(b *event) bool {
	return a.actor == b.actor || slices.Contains(b.after, a) || a.conflicts(&b.Footprint)
}

// set is a set of places in a run.
type set []uint64

func (s set) has(i int) bool { return s[i>>6]>>(i&63)&1 != 0 }
func (s set) add(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s set) join(t set) {
	for i := range s {
		s[i] |= t[i]
	}
}

// meets says that an element of s between two places, exclusive, satisfies f.
func (s set) meets(from, to int, f func(int) bool) bool {
	for i := from + 1; i < to; i++ {
		if s.has(i) && f(i) {
			return true
		}
	}
	return false
}

// past gives for each event those that happen before it: the transitive closure of before.
func past(run []*event) []set {
	out := make([]set, len(run))
	for j, b := range run {
		out[j] = make(set, (len(run)+63)/64)
		for i := j - 1; i >= 0; i-- {
			if !out[j].has(i) && run[i].before(b) {
				out[j].add(i)
				out[j].join(out[i])
			}
		}
	}
	return out
}
