package shared

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

var deep = flag.Int("deep", 0, "preemptions more than usual in exhaustive exploration")

// scenario is small enough to try every schedule of it, up to a number of preemptions:
// one task for each worker, and what happens besides, at any point: the clock moves,
// the first worker dies.
type scenario struct {
	name        string
	layout      Layout
	workers     int
	preemptions int
	setup       func(w *world)
	tasks       []func(k *worker)
	clock       time.Duration // one step of the clock, at any point
	crash       bool          // the first worker may die at any point
	end         func(w *world) error
}

// run plays one schedule: path says which of the possible actors goes on at each
// point, 0 beyond its end. It gives how many there were.
func (sc *scenario) run(path []int) (options []int, w *world) {
	w = newWorld(1, sc.layout, sc.workers)
	sc.setup(w)
	// Who may act: the workers by number, then the clock, then death.
	const none = -1
	current, preempted := none, 0
	started, clock, crash := make([]bool, sc.workers), sc.clock > 0, sc.crash
	for w.broken == nil {
		var actors []int
		mid := current != none && !w.worker[current].idle()
		if mid {
			actors = append(actors, current)
		}
		if !mid || preempted < sc.preemptions+*deep {
			for i := range sc.tasks {
				if i != current && (!started[i] || !w.worker[i].idle()) {
					actors = append(actors, i)
				}
			}
			if clock {
				actors = append(actors, sc.workers)
			}
			if crash && started[0] && !w.worker[0].idle() {
				actors = append(actors, sc.workers+1)
			}
		}
		if len(actors) == 0 {
			break
		}
		at := len(options)
		options = append(options, len(actors))
		choice := 0
		if at < len(path) {
			choice = path[at]
		}
		if choice > 0 && mid {
			preempted++
		}
		switch a := actors[choice]; {
		case a == sc.workers:
			w.now, clock = w.now+ledger.Mono(sc.clock), false
		case a == sc.workers+1:
			w.worker[0].crash()
			crash, current = false, none
		default:
			k := w.worker[a]
			if current = a; !started[a] {
				started[a] = true
				k.begin("task", func() { sc.tasks[a](k) })
			}
			k.step()
		}
	}
	if w.broken == nil && sc.end != nil {
		w.broken = sc.end(w)
	}
	if w.broken == nil && !sc.crash {
		w.watch.exact() // nobody died: there is nothing to heal
	}
	if w.broken == nil {
		w.heal(6 * time.Second)
		w.watch.none(ledger.InFlight)
		w.watch.exact()
	}
	return options, w
}

// explore plays every schedule and gives their number.
func (sc *scenario) explore() (n int, err error) {
	var path []int
	for {
		options, w := sc.run(path)
		n++
		if w.broken != nil {
			return n, fmt.Errorf("schedule %v: %w", path, w.broken)
		}
		for len(path) < len(options) {
			path = append(path, 0)
		}
		path = path[:len(options)]
		for len(path) > 0 && path[len(path)-1]+1 >= options[len(path)-1] {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			return n, nil
		}
		path[len(path)-1]++
	}
}

// whole is a table whose pass of the sweep is one tick.
var whole = Layout{Buckets: 1, Ways: 8, PieceBytes: 64, Pages: 2, Holders: 4, SweepSteps: 100}

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

func asks(c ledger.Claim) func(k *worker) {
	return func(k *worker) {
		k.watch.allow(&c)
		k.ask(c)
	}
}

func ticks(k *worker) { k.tick() }

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
	retry := claimOf(0)
	retry.RetryUnknown = true
	settles := func(ev ledger.Event) func(k *worker) {
		return func(k *worker) {
			if len(k.streams) > 0 {
				k.settle(k.streams[0], ev, 60)
			}
		}
	}
	return []scenario{
		{
			name: "claim, claim", layout: whole, workers: 2, preemptions: 4,
			setup: func(w *world) {},
			tasks: []func(*worker){asks(claimOf(0)), asks(claimOf(0))},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0), 1) },
		},
		{
			name: "three claims", layout: whole, workers: 3, preemptions: 2,
			setup: func(w *world) {},
			tasks: []func(*worker){asks(claimOf(0)), asks(claimOf(0)), asks(claimOf(0))},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0), 1) },
		},
		{
			name: "the last one that fits", layout: whole, workers: 2, preemptions: 4,
			setup: func(w *world) {},
			tasks: []func(*worker){asks(limited(0, slot)), asks(limited(1, slot))},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0, 1), 1) },
		},
		{
			name: "the last one that fits, a crash at any step", layout: whole, workers: 2, preemptions: 2, crash: true,
			setup: func(w *world) {},
			tasks: []func(*worker){asks(limited(0, slot)), asks(limited(1, slot))},
		},
		{
			name: "completion, lease", layout: whole, workers: 2, preemptions: 3, clock: 6 * time.Second,
			setup: func(w *world) { holding(w, 0, claimOf(0), false) },
			tasks: []func(*worker){settles(ledger.Complete), asks(claimOf(0))},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0), 1) },
		},
		{
			name: "completion, lease, taken over", layout: whole, workers: 2, preemptions: 3, clock: 6 * time.Second,
			setup: func(w *world) { holding(w, 0, retry, false) },
			tasks: []func(*worker){settles(ledger.Complete), asks(retry)},
		},
		{
			name: "taken over twice", layout: whole, workers: 2, preemptions: 3,
			setup: func(w *world) {
				holding(w, 0, retry, false)
				w.worker[0].settle(w.worker[0].streams[0], ledger.MarkUnknown, 0)
			},
			tasks: []func(*worker){asks(retry), asks(retry)},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0), 2) },
		},
		{
			name: "sweep, claim", layout: whole, workers: 2, preemptions: 3,
			setup: func(w *world) { holding(w, 1, claimOf(2), false) },
			tasks: []func(*worker){ticks, asks(claimOf(0))},
		},
		{
			name: "sweep, settle", layout: whole, workers: 2, preemptions: 3,
			setup: func(w *world) { holding(w, 1, claimOf(2), false) },
			tasks: []func(*worker){ticks, settles(ledger.Release)},
		},
		{
			name: "sweep, claims with cached quota", layout: whole, workers: 2, preemptions: 2,
			setup: func(w *world) { holding(w, 1, claimOf(4), true) },
			tasks: []func(*worker){ticks, func(k *worker) {
				for n := range 3 {
					k.ask(claimOf(4 * n)) // of one scope
					if len(k.streams) > 0 {
						k.settle(k.streams[0], []ledger.Event{ledger.Complete, ledger.Release, ledger.MarkUnknown}[n], 60)
					}
				}
			}},
		},
		{
			name: "sweep, settle, a crash at any step", layout: whole, workers: 2, preemptions: 2, crash: true,
			setup: func(w *world) {
				holding(w, 0, claimOf(2), false)
				w.worker[1].tick()
			},
			tasks: []func(*worker){settles(ledger.Release), ticks},
		},
		{
			name: "sweep of what expired, claim of it", layout: whole, workers: 2, preemptions: 3,
			setup: func(w *world) {
				holding(w, 1, claimOf(0), true)
				w.now += ledger.Mono(31 * time.Second)
			},
			tasks: []func(*worker){ticks, asks(claimOf(0))},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0), 2) },
		},
		{
			name: "two sweepers, a claim", layout: whole, workers: 3, preemptions: 2, clock: 4 * time.Second,
			setup: func(w *world) { holding(w, 2, claimOf(2), false) },
			tasks: []func(*worker){ticks, ticks, asks(claimOf(0))},
		},
		{
			name: "two sweepers, a settlement", layout: whole, workers: 3, preemptions: 2, clock: 4 * time.Second,
			setup: func(w *world) { holding(w, 2, claimOf(2), false) },
			tasks: []func(*worker){ticks, ticks, settles(ledger.Release)},
		},
		{
			name: "evict, replay", layout: whole, workers: 2, preemptions: 3,
			setup: func(w *world) { holding(w, 0, limited(0, evict), true) },
			tasks: []func(*worker){asks(limited(4, evict)), asks(limited(0, evict))},
		},
		{
			name: "shed, replay", layout: whole, workers: 2, preemptions: 3,
			setup: func(w *world) {
				c, d := claimOf(0), claimOf(1)
				c.Budget.Bytes, d.Budget.Bytes = 64, 64
				holding(w, 1, c, true)
				holding(w, 0, d, false)
			},
			tasks: []func(*worker){settles(ledger.Complete), asks(claimOf(0))},
			end:   func(w *world) error { return exactly("runs", runsOf(w, 0), 1) },
		},
	}
}

func TestEverySchedule(t *testing.T) {
	total := 0
	for _, sc := range scenarios() {
		n, err := sc.explore()
		if err != nil {
			t.Errorf("%s: %v", sc.name, err)
		}
		total += n
		t.Logf("%7d schedules: %s", n, sc.name)
	}
	t.Logf("%7d schedules", total)
}
