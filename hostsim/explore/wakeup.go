package explore

import (
	"slices"
	"strings"
)

// wakeup is a step that a run is to take once it gets where the step's predecessors have led.
type wakeup struct {
	actor string
	// struck are the outcomes that its chances shall have; those beyond are false.
	struck []bool
	// did is what the step did when it was seen. Where late is set it was seen after something that it depends on and that it
	// shall now come before: what it will do then is not known, but for the key that it accesses first.
	did  *Footprint
	late bool
	then []*wakeup
}

// KeyTouch begins the name of a touch of a key of a store. A step has one of those at most, and it is known before the step is taken.
const KeyTouch = "key "

// dependent says that a planned step and what another did may depend on each other. A late step may touch whatever a step may, except
// that of keys it touches its own alone.
func (p *wakeup) dependent(b *Footprint) bool {
	if !p.late {
		return p.did.conflicts(b)
	}
	if p.did.Everything || b.Everything || len(b.Made)+len(b.Used) > 0 {
		return true
	}
	for _, t := range b.touches {
		if !strings.HasPrefix(t.What, KeyTouch) {
			return true
		}
		if slices.ContainsFunc(p.did.touches, func(own Touch) bool { return own.What == t.What }) {
			return true
		}
	}
	return false
}

// sequence is a row of planned steps, each with the event that it was seen as.
type sequence []seen

type seen struct {
	wakeup
	event *event
}

// begins says that the planned step p may as well be the first of the sequence, so that whoever has explored all that begins with p
// has explored the sequence too. at is its place there, -1 if it is not in it.
func (v sequence) begins(p *wakeup) (at int, yes bool) {
	at = slices.IndexFunc(v, func(s seen) bool { return s.actor == p.actor })
	if at < 0 {
		return at, !slices.ContainsFunc(v, func(s seen) bool { return p.dependent(s.did) || s.dependent(p.did) })
	}
	for i := range v[:at] {
		if v[i].event.before(v[at].event) || p.dependent(v[i].did) {
			return at, false
		}
	}
	return at, true
}

// insert adds a sequence to a tree of planned steps, unless what is planned there already covers it.
func insert(tree []*wakeup, v sequence) []*wakeup {
	if len(v) == 0 {
		return tree
	}
	for _, p := range tree {
		at, yes := v.begins(p)
		if !yes || at >= 0 && !slices.Equal(p.struck, v[at].struck) {
			continue
		}
		if len(p.then) == 0 {
			return tree
		}
		if at >= 0 {
			v = slices.Delete(slices.Clone(v), at, at+1)
		}
		p.then = insert(p.then, v)
		return tree
	}
	first := v[0].wakeup
	last := &first
	for i := range v[1:] {
		next := v[i+1].wakeup
		last.then = []*wakeup{&next}
		last = &next
	}
	return append(tree, &first)
}
