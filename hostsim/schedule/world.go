package schedule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/callonce/callonce/hostsim"
	"github.com/callonce/callonce/hostsim/explore"
)

// Option is a step that may be taken next. Its name must say which of all steps it is: of two options of one moment no two share it.
type Option struct {
	Name string
	// Actor is whose step it is. The steps of one actor are never swapped, and only one of them is offered at a time. "" = one of its
	// own. A step that is offered stays so until it is taken.
	Actor string
	// Touches is what the step depends on, besides what the package sees for itself: accesses to shared data, steps that are posted to
	// workers, the clock. nil = on everything.
	Touches []Touch
	// Weight is how likely a random order takes it; 0 means 1. The steps of workers have 8.
	Weight int
	Do     func()
}

func (o *Option) actor() string {
	if o.Actor != "" {
		return o.Actor
	}
	return o.Name
}

// Scenario is what is played.
type Scenario struct {
	// Host is the host under test. Clock, Random and Hooks.Event, Posted and Idle are the package's own; Hooks.Before and After still
	// work, and Before's verdict stands unless a fault strikes first.
	Host hostsim.Config
	// Prepare brings the host to where the scenario begins, before anything is chosen, and to rest: see [World.Drain]. [Every] calls it
	// for a new host only: most runs begin with a host that is brought back to where it was.
	Prepare func(*World) error
	// Faults strike as they say.
	Faults []Fault
	// Offer lists what may happen next outside of the workers. It is asked again after each step.
	Offer func(*World) []Option
	// Check is called after each step, and End once no step is left. An error is a violation: the run ends with it.
	Check, End func(*World) error
	// Compared says that Check compares what a write of shared data leaves with what lies under other keys. Such writes are never
	// swapped, so that exploration shows Check every state that they can lead to. nil = none.
	Compared func(*hostsim.Call) bool
	// MaxSteps ends a run that does not end by itself, which is a violation too; 0 means 200,000.
	MaxSteps int
}

// World is one run of a scenario. Its methods are for Offer, Check and End.
type World struct {
	Host  *hostsim.Host
	Clock *hostsim.ManualClock

	scenario *Scenario
	chooser  Chooser
	steps    []string

	mu      sync.Mutex
	changed *sync.Cond
	free    bool // no step is held
	points  map[int]*point
	struck  []int // by fault
	seen    []int // occasions, by fault
	turn    int   // the worker that runs
	workers map[int]progress
	did     *explore.Footprint // what the present step does; nil outside of steps
}

// progress is how far a worker has come.
type progress struct {
	posted, begun int // steps of its loop
	idle          bool
	random        rand.PCG // what it draws from
}

// point is where a worker stands still.
type point struct {
	name    string
	token   string // of the posted step that begins here; "" = none
	call    *hostsim.Call
	proceed chan hostsim.Verdict
}

// Failure is a violation with the way to it.
type Failure struct {
	Err   error
	Seed  uint64 // of a random order; else 0
	Steps []string
}

// Error gives the violation, the seed and the last steps before it.
func (f *Failure) Error() string {
	const last = 60
	steps := f.Steps
	left := ""
	if len(steps) > last {
		left = fmt.Sprintf("… %d steps before\n  ", len(steps)-last)
		steps = steps[len(steps)-last:]
	}
	seed := ""
	if f.Seed != 0 {
		seed = fmt.Sprintf("seed %d: ", f.Seed)
	}
	return fmt.Sprintf("%s%v\n  %s%s", seed, f.Err, left, strings.Join(steps, "\n  "))
}

// Unwrap gives the violation.
func (f *Failure) Unwrap() error { return f.Err }

func (w *World) run() error {
	limit := w.scenario.MaxSteps
	if limit == 0 {
		limit = 200_000
	}
	for {
		w.settle()
		if w.scenario.Check != nil {
			if err := w.scenario.Check(w); err != nil {
				return err
			}
		}
		options := w.options()
		if len(options) == 0 {
			if x, ok := w.chooser.(*exploring); ok {
				x.Ended()
			}
			break
		}
		if len(w.steps) == limit {
			return fmt.Errorf("no end after %d steps", limit)
		}
		n := w.chooser.Choose(options)
		if n < 0 {
			return explore.ErrRedundant
		}
		w.steps = append(w.steps, options[n].Name)
		w.began(&options[n])
		options[n].Do()
		w.settle()
		w.ended()
	}
	if w.scenario.End != nil {
		return w.scenario.End(w)
	}
	return nil
}

// options are the workers' next steps and what the scenario offers.
func (w *World) options() []Option {
	var out []Option
	w.mu.Lock()
	for n := hostsim.MainThread; n < w.Host.Workers(); n++ {
		if p := w.points[n]; p != nil {
			out = append(out, w.step(n, p))
		}
	}
	w.mu.Unlock()
	if w.scenario.Offer != nil {
		out = append(out, w.scenario.Offer(w)...)
	}
	return out
}

// workerWeight makes a worker's step so much likelier than what a scenario offers without a weight of its own: a worker is rarely held
// up for long.
const workerWeight = 8

func (w *World) step(n int, p *point) Option {
	return Option{Name: fmt.Sprintf("worker %d: %s", n, p.name), Actor: fmt.Sprint("worker ", n), Touches: []Touch{}, Weight: workerWeight,
		Do: func() { w.proceed(n, p) }}
}

const (
	getData = "proxy_get_shared_data"
	setData = "proxy_set_shared_data"
)

// proceed lets a worker go on, or strikes it. The verdict is chosen here, on the scheduler's goroutine, so that choices come in order.
func (w *World) proceed(n int, p *point) {
	v := hostsim.Verdict{}
	if p.call != nil {
		if w.Strike(Crash) {
			v = hostsim.Crash()
			w.Touch(explore.KeyTouch+string(p.call.Key), false)
			w.note("  … and crashes there")
		} else if p.call.Function == setData && p.call.CAS != 0 && w.Strike(RefuseCAS) {
			v = hostsim.Fail(hostsim.StatusCasMismatch)
			w.note("  … which the store refuses")
		}
	}
	w.mu.Lock()
	delete(w.points, n)
	w.turn = n
	if w.did != nil && p.token != "" {
		w.did.Used = append(w.did.Used, p.token)
	}
	w.mu.Unlock()
	p.proceed <- v
}

func (w *World) note(text string) { w.steps = append(w.steps, text) }

// Note adds a line to the steps that a failure prints.
func (w *World) Note(format string, args ...any) { w.note("  … " + fmt.Sprintf(format, args...)) }

// settle returns once every worker stands at a point or has nothing to do.
func (w *World) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.settled() {
		w.changed.Wait()
	}
}

func (w *World) settled() bool {
	for n := hostsim.MainThread; n < w.Host.Workers(); n++ {
		if w.points[n] == nil && !w.Host.Quiet(n) {
			return false
		}
	}
	return true
}

// Busy says that some worker has a step to take.
func (w *World) Busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.points) > 0
}

// Drain lets all workers run, in order of their numbers and without faults, until none has anything to do.
func (w *World) Drain() error {
	for {
		w.settle()
		w.mu.Lock()
		var p *point
		for n := hostsim.MainThread; n < w.Host.Workers() && p == nil; n++ {
			if p = w.points[n]; p != nil {
				delete(w.points, n)
				w.turn = n
			}
		}
		w.mu.Unlock()
		if p == nil {
			return nil
		}
		p.proceed <- hostsim.Verdict{}
		if w.scenario.Check != nil {
			w.settle()
			if err := w.scenario.Check(w); err != nil {
				return err
			}
		}
	}
}

// Advance moves the clock. Timers that fall due post their steps, which then wait to be chosen as all others do.
func (w *World) Advance(d time.Duration) {
	w.Touch("clock", true)
	w.Clock.Jump(d)
}

func (w *World) event(n int, name string) {
	w.mu.Lock()
	for name == "start" && n > 0 && w.free && !w.workers[n-1].idle {
		// Workers start at once, and would draw their random numbers in any order.
		w.changed.Wait()
	}
	p := w.workers[n]
	p.begun++
	w.workers[n] = p
	token := message(n, p.begun)
	if w.free {
		w.turn = n
	}
	w.mu.Unlock()
	w.hold(n, &point{name: name, token: token})
}

func (w *World) rest(n int) {
	w.mu.Lock()
	p := w.workers[n]
	p.idle = p.begun > 0
	w.workers[n] = p
	w.changed.Broadcast()
	w.mu.Unlock()
}

// atCall holds a worker before it touches shared data. stop says that the verdict is final.
func (w *World) atCall(call *hostsim.Call) (v hostsim.Verdict, stop bool) {
	if call.Worker < hostsim.MainThread || call.Function != getData && call.Function != setData {
		return hostsim.Proceed(), false
	}
	what := "get "
	if call.Function == setData {
		what = "set "
	}
	v = w.hold(call.Worker, &point{name: what + string(call.Key), call: call})
	return v, v != hostsim.Proceed()
}

func (w *World) hold(n int, p *point) hostsim.Verdict {
	w.mu.Lock()
	if w.free {
		w.mu.Unlock()
		return hostsim.Proceed()
	}
	p.proceed = make(chan hostsim.Verdict, 1)
	w.points[n] = p
	w.changed.Broadcast()
	w.mu.Unlock()
	return <-p.proceed
}

// fill draws from the numbers of the worker that runs, so that what one draws does not depend on what others have drawn.
func (w *World) fill(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.workers[w.turn]
	rng := rand.New(&p.random)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	w.workers[w.turn] = p
}

// release lets everything run that was held, to its end. Nothing of it is part of the run any more.
func (w *World) release() {
	w.mu.Lock()
	w.free = true
	for n, p := range w.points {
		p.proceed <- hostsim.Verdict{}
		delete(w.points, n)
	}
	w.mu.Unlock()
}
