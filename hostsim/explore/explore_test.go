package explore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// outcome is what all runs of a toy came to.
type outcome struct {
	states, traces map[string]bool
	counted        Explored
	err            error
}

func exploreToy(plain bool, blind func(Touch) bool, most int, make func() *toy) outcome {
	o := outcome{states: map[string]bool{}, traces: map[string]bool{}}
	x := &Explorer{Plain: plain, Blind: blind}
	o.counted, o.err = x.Every(most, func() error {
		t := make()
		err := t.play(x)
		if err == nil {
			o.states[t.state()] = true
			o.traces[trace(x)] = true
		}
		return err
	})
	return o
}

// randomProgram is a few accesses with all that makes them depend on each other: sets that are refused and tried again, reads that
// decide what comes next, chances, actors that wake others.
func randomProgram(rng *rand.Rand, me, steps, kinds int) func(*toyActor) {
	type op struct{ kind, key, arg int }
	var ops []op
	for range steps {
		ops = append(ops, op{rng.IntN(kinds), rng.IntN(3), rng.IntN(3)})
	}
	return func(a *toyActor) {
		cas := map[string]uint32{}
		for i, o := range ops {
			key := string(rune('a' + o.key))
			switch o.kind {
			case 0, 1:
				v, c := a.get(key)
				cas[key] = c
				a.note("%s", v)
			case 2:
				a.note("%v", a.set(key, fmt.Sprint(me, ".", i), cas[key]))
			case 3: // read, change, try again
				for {
					v, c := a.get(key)
					if a.set(key, v+fmt.Sprint(me), c) {
						break
					}
				}
			case 4: // what is read decides
				if v, _ := a.get(key); len(v)%2 == 0 {
					a.set(string(rune('a'+o.arg)), "even", 0)
				}
			case 6:
				a.turn("toss")
				if a.chance() {
					a.put(key, "tossed")
				}
			case 5:
				other := a.actors[o.arg%len(a.actors)]
				a.turn("wake " + other.name)
				a.did.Touch(Touch{What: other.name + " is awake", Writes: true})
				other.sleeping = false
			}
		}
	}
}

func randomToy(seed uint64) func() *toy {
	return func() *toy {
		rng := rand.New(rand.NewPCG(seed, 1))
		n, steps, kinds := 2, 4, 7
		if seed%3 == 0 {
			n, steps = 3, 2
		}
		if exact(seed) {
			kinds = 5
		}
		var programs []func(*toyActor)
		for i := range n {
			programs = append(programs, randomProgram(rng, i, steps, kinds))
		}
		t := newToy(programs...)
		if seed%5 == 0 {
			t.actors[n-1].sleeping = true
		}
		return t
	}
}

// exact toys have no chances, and none that wake others: with those some traces are played twice.
func exact(seed uint64) bool { return seed%2 == 0 }

const (
	toys     = 200
	toyLimit = 4000
)

// Of each set of orders that differ only in steps that may be swapped one is played, and in exact toys only one: as many
// schedules as there are such sets among all orders. And every state that any order ends in is reached.
func TestReductionLosesNothing(t *testing.T) {
	var all, reduced, redundant, skipped int
	for seed := range uint64(toys) {
		want := exploreToy(true, nil, toyLimit, randomToy(seed))
		if want.err != nil {
			t.Fatalf("toy %d: %v", seed, want.err)
		}
		if !want.counted.Whole {
			skipped++
			continue
		}
		got := exploreToy(false, nil, toyLimit, randomToy(seed))
		if got.err != nil {
			t.Fatalf("toy %d: %v", seed, got.err)
		}
		if !maps.Equal(got.states, want.states) {
			t.Errorf("toy %d: all orders end in %d states, those that were played in %d", seed, len(want.states), len(got.states))
		}
		n := got.counted.Schedules
		if !maps.Equal(got.traces, want.traces) || exact(seed) && n+got.counted.Redundant != len(want.traces) {
			t.Errorf("toy %d: %d schedules for %d of %d traces", seed, n, len(got.traces), len(want.traces))
		}
		all, reduced, redundant = all+want.counted.Schedules, reduced+got.counted.Schedules, redundant+got.counted.Redundant
	}
	t.Logf("%d orders, of which %d were played (and %d broken off); %d toys too large to compare", all, reduced, redundant, skipped)
	if skipped > toys/4 || reduced*4 > all {
		t.Error("the toys show little")
	}
}

// A dependence that the explorer does not see makes it miss states: the test above would tell.
func TestReductionNeedsEveryDependence(t *testing.T) {
	for name, blind := range map[string]func(Touch) bool{
		"reads":         func(touch Touch) bool { return !touch.Writes },
		"writes":        func(touch Touch) bool { return touch.Writes },
		"one key of it": func(touch Touch) bool { return touch.What == KeyTouch+"b" },
	} {
		missed := 0
		for seed := range uint64(toys / 4) {
			want := exploreToy(true, nil, toyLimit, randomToy(seed))
			if !want.counted.Whole {
				continue
			}
			got := exploreToy(false, blind, toyLimit, randomToy(seed))
			if got.err == nil && !maps.Equal(got.states, want.states) {
				missed++
			}
		}
		t.Logf("blind to %s: states missed in %d of %d toys", name, missed, toys/4)
		if missed == 0 {
			t.Errorf("an explorer blind to %s misses nothing", name)
		}
	}
}

// Every outcome of every chance is played, with the reduction and without.
func TestChancesGoBothWays(t *testing.T) {
	for _, plain := range []bool{true, false} {
		o := exploreToy(plain, nil, 100, func() *toy {
			return newToy(func(a *toyActor) {
				a.turn("toss")
				a.note("%v %v", a.chance(), a.chance())
				a.turn("toss again")
				a.note("%v", a.chance())
			})
		})
		if o.err != nil || !o.counted.Whole || len(o.states) != 8 || o.counted.Schedules != 8 {
			t.Errorf("plain %v: %d outcomes of 3 chances in %d schedules, complete %v, %v; want 8 in 8", plain, len(o.states), o.counted.Schedules, o.counted.Whole, o.err)
		}
	}
}

// A run that does not repeat is no run to build on.
func TestRunsThatDiffer(t *testing.T) {
	n := 0
	x := &Explorer{}
	_, err := x.Every(100, func() error {
		n++
		return newToy(
			func(a *toyActor) { a.get(fmt.Sprint("k", n/2)); a.set("k", "1", 0) },
			func(a *toyActor) { a.get("k") },
		).play(x)
	})
	if err == nil || !strings.Contains(err.Error(), "cannot be repeated") {
		t.Fatalf("got %v", err)
	}
}

// A step that can be taken no more once another has been is beyond what the explorer can reduce, and it says so.
func TestStepsThatVanish(t *testing.T) {
	x := &Explorer{}
	_, err := x.Every(10, func() error {
		if x.Choose([]Step{{Actor: "a", Name: "a"}, {Actor: "b", Name: "b"}}) < 0 {
			return ErrRedundant
		}
		x.Took(&Footprint{})
		x.Ended()
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), `step "b" could be taken before "a", and not after it`) {
		t.Fatalf("got %v", err)
	}
}

// A step that has another name than before is another step, though it touches the same.
func TestStepsThatDiffer(t *testing.T) {
	x, n := &Explorer{}, 0
	_, err := x.Every(10, func() error {
		n++
		left := []string{"a", "b", "c"}
		for len(left) > 0 {
			var options []Step
			for _, actor := range left {
				options = append(options, Step{Actor: actor, Name: fmt.Sprint(actor, n)})
			}
			at := x.Choose(options)
			if at < 0 {
				return ErrRedundant
			}
			left = slices.Delete(left, at, at+1)
			x.Took(&Footprint{Everything: true})
		}
		x.Ended()
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), `a run cannot be repeated: step 1 was "a1", and is "a2"`) {
		t.Fatalf("got %v", err)
	}
}
