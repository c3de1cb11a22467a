// Package explore plays every order in which the steps of several actors may come, but for those that differ only in steps that may be
// swapped (optimal dynamic partial order reduction, after Abdulla, Aronis, Jonsson and Sagonas, 2014). It knows neither hosts nor filters:
// whoever takes the steps tells what each of them did.
//
// Which steps may be swapped is seen while they run: two depend on each other if they are one actor's, if one made the other possible, or
// if their footprints meet. Where two that depend on each other could have come the other way round, that way is played too.
package explore

import (
	"errors"
	"fmt"
	"slices"
)

// Explored counts what [Explorer.Every] has played.
type Explored struct {
	// Schedules were played to their end. No two of them are the same but for the order of steps that may be swapped.
	Schedules int
	// Redundant runs were broken off, because they would have become the same as one before.
	Redundant int
	// Shortest and Longest are the numbers of steps of the schedules.
	Shortest, Longest int
	// Whole says that there are no other schedules.
	Whole bool
}

// ErrRedundant ends a run whose order is the same as one before but for steps that may be swapped: see [Explorer.Choose].
var ErrRedundant = errors.New("redundant")

// Every calls play for each run, until one fails, all orders have been played (Whole) or limit runs have been. play takes the steps that
// Choose names, from the same beginning each time, and returns ErrRedundant, or what wraps it, where Choose wants the run broken off. An
// error is play's, or says what keeps the orders from being explored: a run that cannot be repeated, a step that another makes impossible.
func (x *Explorer) Every(limit int, play func() error) (Explored, error) {
	var e Explored
	for e.Schedules+e.Redundant < limit {
		err := play()
		if x.mismatch != nil {
			return e, x.mismatch
		}
		switch {
		case err == nil:
			n := len(x.path)
			if e.Schedules++; e.Schedules == 1 || n < e.Shortest {
				e.Shortest = n
			}
			e.Longest = max(e.Longest, n)
		case errors.Is(err, ErrRedundant):
			e.Redundant++
		default:
			return e, err
		}
		if !x.next() {
			e.Whole = true
			return e, nil
		}
	}
	return e, nil
}

// Step is one that may be taken next.
type Step struct {
	// Actor is whose step it is. The steps of one actor are never swapped, and only one of them is there at a time. A step that may be taken
	// stays so until it is.
	Actor string
	// Name says which of all steps of the actor it is.
	Name string
}

// Explorer walks the tree of choices depth first. Each run repeats the path so far and goes on from there. The zero value is ready.
type Explorer struct {
	// Plain leaves the reduction out: every order is played. Blind leaves what it is true of out of what steps are seen to do. Both are for
	// showing that the reduction loses nothing.
	Plain bool
	Blind func(Touch) bool

	path []*node
	// depth is how many steps of the path the present run has begun, chances how many of the last one.
	depth, chances int
	options        []Step // when the last step was chosen
	makers         map[string]*event
	mismatch       error
}

// node is a moment at which a step is chosen.
type node struct {
	// sleepSet are steps that lead nowhere new from here, tree those that must be taken still.
	sleepSet, tree []*wakeup
	event          *event
	plan           *wakeup // what event was, or is, to be
	// tried are the outcomes of its chances that were played, did is what it did in them.
	tried []*wakeup
	did   *Footprint
	done  bool // event has been taken, and is known
}

// Choose returns the place of one of options, of which there is at least one. Below 0 it ends the run, as one that need not be played.
func (x *Explorer) Choose(options []Step) int {
	if !x.stable(options) {
		return -1
	}
	x.options = slices.Clone(options)
	x.chances = 0
	if x.depth == len(x.path) {
		n := x.open()
		if !n.choose(options, x.last(), x.Plain) {
			return -1
		}
		x.path = append(x.path, n)
	}
	n := x.path[x.depth]
	x.depth++
	at := slices.IndexFunc(options, func(o Step) bool { return o.Actor == n.plan.actor })
	switch {
	case at < 0:
		return x.lost("at step %d %s cannot be taken, which was seen to be possible", x.depth, n.plan.actor)
	case n.done && options[at].Name != n.event.name:
		return x.lost("a run cannot be repeated: step %d was %q, and is %q", x.depth, n.event.name, options[at].Name)
	case !n.done:
		n.event = &event{actor: n.plan.actor, name: options[at].Name}
	}
	return at
}

func (x *Explorer) lost(format string, args ...any) int {
	x.mismatch = fmt.Errorf(format, args...)
	return -1
}

// Ended tells that no step is left.
func (x *Explorer) Ended() { x.stable(nil) }

// stable looks at what the last step made of the options: what it added it made possible. It must not have taken any away.
func (x *Explorer) stable(options []Step) bool {
	if x.depth == 0 {
		x.makers = map[string]*event{}
		return x.mismatch == nil
	}
	last := x.path[x.depth-1].event
	has := func(in []Step, name string) bool {
		return slices.ContainsFunc(in, func(o Step) bool { return o.Name == name })
	}
	for _, o := range x.options {
		if o.Actor != last.actor && !has(options, o.Name) {
			x.lost("step %q could be taken before %q, and not after it: such steps cannot be told to depend on each other", o.Name, last.name)
			return false
		}
	}
	for _, o := range options {
		if !has(x.options, o.Name) {
			x.makers["option "+o.Name] = last
		}
	}
	return x.mismatch == nil
}

// open makes the node that follows the path.
func (x *Explorer) open() *node {
	n := &node{}
	last := x.last()
	if last == nil || x.Plain {
		return n
	}
	n.tree = last.plan.then
	for _, p := range last.sleepSet {
		if p.actor != last.event.actor && !p.did.conflicts(&last.event.Footprint) {
			n.sleepSet = append(n.sleepSet, p)
		}
	}
	return n
}

func (x *Explorer) last() *node {
	if len(x.path) == 0 {
		return nil
	}
	return x.path[len(x.path)-1]
}

// choose decides on a step: the next that is planned, else any that is not in the sleep set, rather of the one who took the last. It is false
// if there is none.
func (n *node) choose(options []Step, last *node, plain bool) bool {
	if len(n.tree) > 0 {
		n.plan, n.tree = n.tree[0], n.tree[1:]
		return true
	}
	for _, o := range options {
		sleeps := slices.ContainsFunc(n.sleepSet, func(p *wakeup) bool { return p.actor == o.Actor })
		if !sleeps && (n.plan == nil || last != nil && o.Actor == last.event.actor) {
			n.plan = &wakeup{actor: o.Actor}
		}
	}
	if plain {
		for _, o := range options {
			if o.Actor != n.plan.actor {
				n.tree = append(n.tree, &wakeup{actor: o.Actor})
			}
		}
	}
	return n.plan != nil
}

// Chance decides something that the present step leaves open: both ways are played.
func (x *Explorer) Chance() bool {
	if x.depth == 0 {
		x.lost("a chance before the first step")
		return false
	}
	n := x.path[x.depth-1]
	at := x.chances
	x.chances++
	if at < len(n.event.struck) {
		return n.event.struck[at]
	}
	if n.done {
		x.lost("a run cannot be repeated: step %q takes more chances than before", n.event.name)
		return false
	}
	hit := at < len(n.plan.struck) && n.plan.struck[at]
	n.event.struck = append(n.event.struck, hit)
	return hit
}

// Took tells what the step did that was chosen last.
func (x *Explorer) Took(did *Footprint) {
	n := x.path[x.depth-1]
	if n.done {
		if !n.event.Footprint.equal(did) && x.mismatch == nil {
			x.lost("a run cannot be repeated: step %q touched %v, and touches %v", n.event.name, n.event.Footprint, *did)
		}
	} else {
		n.learn(did, x.Blind)
	}
	for _, token := range did.Made {
		x.makers[token] = n.event
	}
	if n.done {
		return
	}
	n.done = true
	for _, token := range append(did.Used, "option "+n.event.name) {
		if m := x.makers[token]; m != nil && !slices.Contains(n.event.after, m) {
			n.event.after = append(n.event.after, m)
		}
	}
}

// learn keeps what a step did, and plans for the other outcomes of its chances.
func (n *node) learn(did *Footprint, blind func(Touch) bool) {
	n.event.Footprint = *did
	n.event.touches = slices.Clone(did.touches)
	if blind != nil {
		n.event.touches = slices.DeleteFunc(n.event.touches, blind)
	}
	n.tried = append(n.tried, &wakeup{actor: n.event.actor, struck: n.event.struck})
	for i, hit := range n.event.struck {
		other := append(slices.Clone(n.event.struck[:i]), !hit)
		known := func(p *wakeup) bool {
			return p.actor == n.event.actor && len(p.struck) > i && slices.Equal(p.struck[:i+1], other)
		}
		if !slices.ContainsFunc(n.tried, known) && !slices.ContainsFunc(n.tree, known) {
			n.tree = append([]*wakeup{{actor: n.event.actor, struck: other, did: &Footprint{Everything: true}}}, n.tree...)
		}
	}
}

// next moves on to the next path. It is false when there is none.
func (x *Explorer) next() bool {
	if !x.Plain {
		x.reverse()
	}
	x.depth = 0
	for len(x.path) > 0 {
		n := x.last()
		n.rest()
		if len(n.tree) > 0 {
			n.plan, n.tree, n.event, n.done = n.tree[0], n.tree[1:], nil, false
			return true
		}
		x.path = x.path[:len(x.path)-1]
	}
	return false
}

// rest puts the step that has been explored into the sleep set, with whatever it did in any outcome of its chances, once all of those have been.
func (n *node) rest() {
	if n.did == nil {
		n.did = &Footprint{}
	}
	n.did.Everything = n.did.Everything || n.event.Everything
	for _, t := range n.event.touches {
		n.did.Touch(t)
	}
	if slices.ContainsFunc(n.tree, func(p *wakeup) bool { return p.actor == n.event.actor }) {
		return
	}
	n.sleepSet = append(n.sleepSet, &wakeup{actor: n.event.actor, did: n.did})
	n.did = nil
}

// reverse plans, for each two steps of the run that depend on each other and could have come the other way round, a run in which they do.
func (x *Explorer) reverse() {
	run := make([]*event, len(x.path))
	for i, n := range x.path {
		run[i] = n.event
	}
	before := past(run)
	for j, b := range run {
		for i := range j {
			a := run[i]
			if !before[j].has(i) || a.actor == b.actor || slices.Contains(b.after, a) || !a.conflicts(&b.Footprint) ||
				before[j].meets(i, j, func(k int) bool { return before[k].has(i) }) {
				continue
			}
			var v sequence
			for k := i + 1; k < len(run); k++ {
				if !before[k].has(i) {
					v = append(v, seen{wakeup{actor: run[k].actor, struck: run[k].struck, did: &run[k].Footprint}, run[k]})
				}
			}
			v = append(v, seen{wakeup{actor: b.actor, did: &b.Footprint, late: true}, b})
			x.path[i].plans(v)
		}
	}
}

func (n *node) plans(v sequence) {
	for _, p := range n.sleepSet {
		if _, yes := v.begins(p); yes {
			return
		}
	}
	n.tree = insert(n.tree, v)
}
