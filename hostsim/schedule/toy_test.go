package schedule

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/callonce/callonce/hostsim"
)

// toy is a table of shared data with a few actors at work on it, small enough that every order of its steps can be played. It stands in
// for a host to show that what the explorer leaves out is nothing new.
type toy struct {
	cells  map[string]toyCell
	cas    uint32
	actors []*toyActor
	did    *footprint
	chance func() bool
	// check is asked after each step.
	check func() error
}

type toyCell struct {
	value string
	cas   uint32
}

// toyActor runs a program; before each access it waits for its turn.
type toyActor struct {
	*toy
	name    string
	program func(*toyActor)
	next    func() (string, bool)
	stop    func()
	waits   string // for what
	asleep  bool   // until another wakes it
	over    bool
	log     []string
	yield   func(string) bool
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
	a.did.touch(Touch{keyTouch + key, false})
	c, present := a.cells[key]
	if !present {
		c.cas = hostsim.InsertOnly
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
		a.did.touch(Touch{keyTouch + key, false})
	}
	return ok
}

func (a *toyActor) put(key, value string) {
	a.did.touch(Touch{keyTouch + key, true})
	a.toy.cas++
	a.cells[key] = toyCell{value, a.toy.cas}
}

func (a *toyActor) note(format string, args ...any) {
	a.log = append(a.log, fmt.Sprintf(format, args...))
}

// play plays one order.
func (t *toy) play(x *explorer) error {
	t.chance = func() bool { return x.Chance(2) }
	for _, a := range t.actors {
		a.start()
		defer a.stop()
	}
	for {
		var options []Option
		var who []*toyActor
		for _, a := range t.actors {
			if !a.over && !a.asleep {
				options, who = append(options, Option{Name: a.name + ": " + a.waits, Actor: a.name}), append(who, a)
			}
		}
		if len(options) == 0 {
			x.stable(nil)
			return nil
		}
		n := x.Choose(options)
		if n < 0 {
			return &Failure{Err: errRedundant}
		}
		t.did = &footprint{}
		who[n].on()
		x.took(t.did)
		if t.check != nil {
			if err := t.check(); err != nil {
				return err
			}
		}
	}
}

// state is everything that is left: what lies under the keys, whatever numbers it has, and what each actor saw.
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
func trace(x *explorer) string {
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
