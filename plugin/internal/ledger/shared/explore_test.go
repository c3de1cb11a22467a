package shared

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim/explore"
	"github.com/callonce/callonce/plugin/internal/ledger"
)

// scenario is small enough to play every order of its steps but for those that differ only in steps that may be swapped: one task for
// each worker, and what happens besides, at any point: the clock moves, the first worker dies.
type scenario struct {
	name    string
	layout  Layout
	workers int
	// least is how few orders the scenario may have, so that a change which hides steps from the explorer is seen.
	least int
	// small says that all orders are few enough to compare with those that are played.
	small bool
	setup func(w *world)
	tasks []task
	clock time.Duration // one step of the clock, at any point
	crash bool          // the first worker may die at any point
	// ahead is how many steps the first worker takes alone, after which time passes: late.
	ahead int
	late  time.Duration
	end   func(w *world) error
}

// mostOrders is how many orders a scenario may have, so that a change which lets one explode is seen.
const mostOrders = 50000

// task is what one worker does, and the claims in it.
type task struct {
	run    func(k *worker)
	claims []ledger.Claim
}

// play plays one order, of the explorer's choice.
func (sc *scenario) play(x *explore.Explorer) error {
	w := newWorld(1, sc.layout, sc.workers)
	if err := sc.order(w, x); err != nil {
		return err
	}
	if w.broken == nil {
		w.heal(6 * time.Second)
		w.watch.none(ledger.InFlight)
		w.watch.exact()
	}
	return w.broken
}

// order takes the steps, to their end.
func (sc *scenario) order(w *world, x *explore.Explorer) error {
	sc.setup(w)
	for i, task := range sc.tasks {
		for _, c := range task.claims {
			w.watch.allow(&c)
		}
		k := w.worker[i]
		k.begin("task", func() { task.run(k) })
	}
	for range sc.ahead {
		w.worker[0].step()
	}
	w.now += ledger.Mono(sc.late)
	clock, crash := sc.clock > 0, sc.crash
	for w.broken == nil {
		var options []explore.Step
		var who []*worker
		for i := range sc.tasks {
			if k := w.worker[i]; !k.idle() {
				actor := fmt.Sprint("worker ", i)
				options, who = append(options, explore.Step{Actor: actor, Name: actor + ": " + k.waits}), append(who, k)
			}
		}
		if clock {
			options, who = append(options, explore.Step{Actor: "clock", Name: "clock"}), append(who, nil)
		}
		if len(options) == 0 {
			x.Ended()
			break
		}
		at := x.Choose(options)
		if at < 0 {
			for _, k := range w.worker {
				k.abandon()
			}
			return explore.ErrRedundant
		}
		did := &explore.Footprint{}
		switch k := who[at]; {
		case k == nil:
			did.Touch(explore.Touch{What: clockTouch, Writes: true})
			w.now, clock = w.now+ledger.Mono(sc.clock), false
		case crash && k.n == 0 && k.waits != "begin" && x.Chance():
			// Nobody can tell that it is gone. It starts again when the order has come to its end.
			crash = false
			k.abandon()
		default:
			w.did = did
			k.step()
			w.did = nil
		}
		x.Took(did)
	}
	if sc.crash && !crash {
		w.start(w.worker[0])
	}
	if w.broken == nil && sc.end != nil {
		w.broken = sc.end(w)
	}
	if w.broken == nil && !sc.crash {
		w.watch.exact() // nobody died: there is nothing to heal
	}
	return w.broken
}

// whole is a table whose pass of the sweep is one tick.
var whole = Layout{Buckets: 1, Ways: 8, PieceBytes: 64, Pages: 2, Holders: 4, SweepSteps: 100}

// wide has as many pages as there are rows in a claim or two, so that workers meet in those of one policy alone.
var wide = Layout{Buckets: 1, Ways: 8, PieceBytes: 64, Pages: 8, Holders: 4, SweepSteps: 100}

// narrow has one page for all rows.
var narrow = Layout{Buckets: 1, Ways: 8, PieceBytes: 64, Pages: 1, Holders: 4, SweepSteps: 100}

func limited(n int, l ledger.Limits) ledger.Claim {
	c := claimOf(n)
	c.Limits = l
	return c
}

func runsOf(w *world, keys ...int) (n int) {
	for _, k := range keys {
		n += w.runs[idOf(k)]
	}
	return n
}

func exactly(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("%s: %d, want %d", what, got, want)
	}
	return nil
}

func asks(c ledger.Claim) task {
	return task{func(k *worker) { k.ask(c) }, []ledger.Claim{c}}
}

var ticks = task{run: func(k *worker) { k.tick() }}

// holding lets worker n win a key, completed if asked, before the schedule begins.
func holding(w *world, n int, c ledger.Claim, complete bool) {
	k := w.worker[n]
	w.watch.allow(&c)
	k.ask(c)
	if complete {
		k.settle(k.streams[0], ledger.Complete, 60)
	}
}

func scenarios() []scenario {
	one := usual()
	one.Entries, one.EntriesPerPrincipal, one.EntriesPerScope = 1, 1, 1
	evict := one
	evict.OnFullEvict = true
	slot := usual()
	slot.InFlight = 1
	few := small(false) // of which nothing is cached
	retry := claimOf(0)
	retry.RetryUnknown = true
	settles := func(ev ledger.Event) task {
		return task{run: func(k *worker) {
			if len(k.streams) > 0 {
				k.settle(k.streams[0], ev, 60)
			}
		}}
	}
	// cached lets each worker have quota of the rows of claim 0 for its next claim, so that this touches no page.
	cached := func(w *world) {
		for n := range w.worker {
			holding(w, n, claimOf(4*(n+2)), true)
		}
	}
	return []scenario{
		{
			name: "claim, claim", layout: wide, workers: 2, least: 2000,
			setup: func(w *world) {},
			tasks: []task{asks(claimOf(0)), asks(claimOf(0))},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0), 1) },
		},
		{
			name: "three claims with cached quota", layout: whole, workers: 3, least: 45,
			setup: cached,
			tasks: []task{asks(claimOf(0)), asks(claimOf(0)), asks(claimOf(0))},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0), 1) },
		},
		{
			name: "the last one that fits", layout: wide, workers: 2, least: 400,
			setup: func(w *world) {},
			tasks: []task{asks(limited(0, slot)), asks(limited(1, slot))},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0, 1), 1) },
		},
		{
			name: "the last one that fits, a crash at any step", layout: wide, workers: 2, least: 2500, crash: true,
			setup: func(w *world) {},
			tasks: []task{asks(limited(0, slot)), asks(limited(1, slot))},
		},
		{
			name: "completion, lease", layout: whole, workers: 2, least: 10, small: true, clock: 6 * time.Second,
			setup: func(w *world) { holding(w, 0, claimOf(0), false) },
			tasks: []task{settles(ledger.Complete), asks(claimOf(0))},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0), 1) },
		},
		{
			name: "completion, lease, taken over", layout: whole, workers: 2, least: 14, clock: 6 * time.Second,
			setup: func(w *world) { holding(w, 0, retry, false) },
			tasks: []task{settles(ledger.Complete), asks(retry)},
		},
		{
			name: "taken over twice", layout: whole, workers: 2, least: 7, small: true,
			setup: func(w *world) {
				holding(w, 0, retry, false)
				w.worker[0].settle(w.worker[0].streams[0], ledger.MarkUnknown, 0)
			},
			tasks: []task{asks(retry), asks(retry)},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0), 2) },
		},
		{
			name: "sweep, claim", layout: whole, workers: 2, least: 9000,
			setup: func(w *world) { holding(w, 1, claimOf(2), false) },
			tasks: []task{ticks, asks(claimOf(0))},
		},
		{
			name: "sweep, settle", layout: whole, workers: 2, least: 130,
			setup: func(w *world) { holding(w, 1, claimOf(2), false) },
			tasks: []task{ticks, settles(ledger.Release)},
		},
		{
			name: "sweep, claims with cached quota", layout: whole, workers: 2, least: 6000,
			setup: func(w *world) { holding(w, 1, claimOf(4), true) },
			tasks: []task{ticks, {run: func(k *worker) {
				for n := range 3 {
					k.ask(claimOf(4 * n)) // of one scope
					if len(k.streams) > 0 {
						k.settle(k.streams[0], []ledger.Event{ledger.Complete, ledger.Release, ledger.MarkUnknown}[n], 60)
					}
				}
			}}},
		},
		{
			name: "sweep, settle, a crash at any step", layout: whole, workers: 2, least: 14, small: true, crash: true,
			setup: func(w *world) {
				holding(w, 0, claimOf(2), false)
				w.worker[1].tick()
			},
			tasks: []task{settles(ledger.Release), ticks},
		},
		{
			name: "sweep of what expired, claim of it", layout: whole, workers: 2, least: 3000,
			setup: func(w *world) {
				holding(w, 1, claimOf(0), true)
				w.now += ledger.Mono(31 * time.Second)
			},
			tasks: []task{ticks, asks(claimOf(0))},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0), 2) },
		},
		{
			// The first one stands still before it installs its count, until it is no sweeper any more.
			name: "two sweepers, a claim", layout: narrow, workers: 2, least: 18, ahead: 7, late: 4 * time.Second,
			setup: func(w *world) {},
			tasks: []task{ticks, {func(k *worker) { k.tick(); k.ask(limited(0, few)) }, []ledger.Claim{limited(0, few)}}},
		},
		{
			name: "two sweepers, a claim with cached quota", layout: whole, workers: 3, least: 10000, clock: 4 * time.Second,
			setup: func(w *world) { holding(w, 2, claimOf(8), true) },
			tasks: []task{ticks, ticks, asks(claimOf(0))},
		},
		{
			name: "two sweepers, a settlement", layout: narrow, workers: 3, least: 1300, clock: 4 * time.Second,
			setup: func(w *world) { holding(w, 2, limited(2, few), false) },
			tasks: []task{ticks, ticks, settles(ledger.Release)},
		},
		{
			name: "evict, replay", layout: whole, workers: 2, least: 8,
			setup: func(w *world) { holding(w, 0, limited(0, evict), true) },
			tasks: []task{asks(limited(4, evict)), asks(limited(0, evict))},
		},
		{
			name: "shed, replay", layout: whole, workers: 2, least: 3, small: true,
			setup: func(w *world) {
				c, d := claimOf(0), claimOf(1)
				c.Budget.Bytes, d.Budget.Bytes = 64, 64
				holding(w, 1, c, true)
				holding(w, 0, d, false)
			},
			tasks: []task{settles(ledger.Complete), asks(claimOf(0))},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0), 1) },
		},
	}
}

// Every order of these scenarios is played to its end, or stands for one that differs in steps that nobody can tell the order of.
func TestEverySchedule(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			x := &explore.Explorer{}
			e, err := x.Every(mostOrders, func() error { return sc.play(x) })
			switch {
			case err != nil:
				t.Error(err)
			case !e.Whole:
				t.Errorf("not complete after %d schedules", e.Schedules)
			case e.Schedules < sc.least:
				t.Errorf("%d schedules, want no fewer than %d", e.Schedules, sc.least)
			}
			t.Logf("%d schedules of %d to %d steps, %d broken off", e.Schedules, e.Shortest, e.Longest, e.Redundant)
		})
	}
}

// end is what an order leaves: the values of the table, whatever their cas, and how often each call ran.
func (w *world) end() string {
	var out []string
	for key, c := range w.cells {
		out = append(out, fmt.Sprintf("%s=%x", key, c.value))
	}
	for id, n := range w.runs {
		out = append(out, fmt.Sprintf("%x ran %d times", id[:4], n))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// What is left out is nothing new: all orders of the small scenarios end in the same tables as the few that are played.
func TestReducedSchedulesReachAll(t *testing.T) {
	for _, sc := range scenarios() {
		if !sc.small {
			continue
		}
		ends := func(plain bool) (map[string]bool, int) {
			seen, x := map[string]bool{}, &explore.Explorer{Plain: plain}
			e, err := x.Every(mostOrders, func() error {
				w := newWorld(1, sc.layout, sc.workers)
				err := sc.order(w, x)
				if err == nil {
					seen[w.end()] = true
				}
				return err
			})
			if err != nil || !e.Whole {
				t.Fatalf("%s: %d schedules, complete %v: %v", sc.name, e.Schedules, e.Whole, err)
			}
			return seen, e.Schedules
		}
		all, orders := ends(true)
		some, played := ends(false)
		t.Logf("%s: %d of %d orders, %d ends", sc.name, played, orders, len(all))
		if !maps.Equal(some, all) {
			t.Errorf("%s: %d orders end in %d ways, those that were played in %d", sc.name, orders, len(all), len(some))
		}
	}
}
