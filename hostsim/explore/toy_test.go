package explore

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
)

// toy is a table of shared data with a few actors at work on it, small enough that every order of its steps can be played. It stands in
// for a host to show that what the explorer leaves out is nothing new.
type toy struct {
	cells  map[string]toyCell
	cas    uint32
	actors []*toyActor
	did    *Footprint
	chance func() bool
	// check is asked after each step.
	check func() error
}

// insertOnly is the cas that no value ever has.
const insertOnly = math.MaxUint32

type toyCell struct {
	value string
	cas   uint32
}

// toyActor runs a program; before each access it waits for its turn.
type toyActor struct {
	*toy
	name     string
	program  func(*toyActor)
	next     func() (string, bool)
	stop     func()
	waits    string // for what
	sleeping bool   // until another wakes it
	over     bool
	log      []string
	yield    func(string) bool
}

func newToy(programs ...func(*toyActor)) *toy {
	t := &toy{cells: map[string]toyCell{}}
	for i, p := range programs {
		t.actors = append(t.actors, &toyActor{toy: t, name: fmt.Sprint("actor ", i), program: p})
	}
	return t
}

var errToyOver = errors.New("the toy is put away")

func (a *toyActor) start() {
	a.next, a.stop = iter.Pull(func(yield func(string) bool) {
		defer func() {
			if r := recover(); r != nil && r != errToyOver {
				panic(r)
			}
		}()
		a.yield = yield
		a.program(a)
	})
	a.on()
}

func (a *toyActor) on() {
	waits, more := a.next()
	a.waits, a.over = waits, !more
}

func (a *toyActor) turn(what string) {
	if !a.yield(what) {
		panic(errToyOver)
	}
}

func (a *toyActor) get(key string) (string, uint32) {
	a.turn("get " + key)
	a.did.Touch(Touch{What: KeyTouch + key})
	c, present := a.cells[key]
	if !present {
		c.cas = insertOnly
	}
	return c.value, c.cas
}

// set has the store's rules.
func (a *toyActor) set(key, value string, cas uint32) bool {
	a.turn("set " + key)
	old, present := a.cells[key]
	ok := !present || cas == 0 || cas == old.cas
	if ok {
		a.put(key, value)
	} else {
		a.did.Touch(Touch{What: KeyTouch + key})
	}
	return ok
}

func (a *toyActor) put(key, value string) {
	a.did.Touch(Touch{What: KeyTouch + key, Writes: true})
	a.toy.cas++
	a.cells[key] = toyCell{value, a.toy.cas}
}

func (a *toyActor) note(format string, args ...any) {
	a.log = append(a.log, fmt.Sprintf(format, args...))
}

// play plays one order.
func (t *toy) play(x *Explorer) error {
	t.chance = func() bool { return x.Chance() }
	for _, a := range t.actors {
		a.start()
		defer a.stop()
	}
	for {
		var options []Step
		var who []*toyActor
		for _, a := range t.actors {
			if !a.over && !a.sleeping {
				options, who = append(options, Step{Actor: a.name, Name: a.name + ": " + a.waits}), append(who, a)
			}
		}
		if len(options) == 0 {
			x.Ended()
			return nil
		}
		n := x.Choose(options)
		if n < 0 {
			return ErrRedundant
		}
		t.did = &Footprint{}
		who[n].on()
		x.Took(t.did)
		if t.check != nil {
			if err := t.check(); err != nil {
				return err
			}
		}
	}
}

// state is Everything that is left: what lies under the keys, whatever numbers it has, and what each actor saw.
func (t *toy) state() string {
	var out []string
	for key, c := range t.cells {
		out = append(out, key+"="+c.value)
	}
	slices.Sort(out)
	for _, a := range t.actors {
		out = append(out, strings.Join(a.log, ","))
	}
	return strings.Join(out, "; ")
}

// trace says which steps were taken and which of them came before which because it matters: the same for all orders of which one
// stands for the others.
func trace(x *Explorer) string {
	run := make([]*event, len(x.path))
	names := make([]string, len(run))
	count := map[string]int{}
	for i, n := range x.path {
		run[i] = n.event
		count[n.event.actor]++
		names[i] = fmt.Sprint(n.event.actor, "/", count[n.event.actor], n.event.struck)
	}
	var out []string
	for j, before := range past(run) {
		var first []string
		for i := range j {
			if before.has(i) {
				first = append(first, names[i])
			}
		}
		slices.Sort(first)
		out = append(out, fmt.Sprint(names[j], "<", first))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
