package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// Touch is something that a step reads or changes. Two steps that touch nothing in common, or only read it, may be swapped.
type Touch struct {
	What   string
	Writes bool
}

// Option is a step that may be taken next. Its name must say which of all steps it is: of two options of one moment no two share it.
type Option struct {
	Name string
	// Touches is what the step depends on; nil = on everything.
	Touches []Touch
	// Weight is how likely a random order takes it; 0 means 1. The steps of workers have 8.
	Weight int
	Do     func()
}

// Scenario is what is played.
type Scenario struct {
	// Host is the host under test. Clock, Random and Hooks.Event and Idle are the package's own; Hooks.Before and After still work, and
	// Before's verdict stands unless a fault strikes first.
	Host hostsim.Config
	// Faults strike as they say.
	Faults []Fault
	// Offer lists what may happen next outside of the workers. It is asked again after each step.
	Offer func(*World) []Option
	// Check is called after each step, and End once no step is left. An error is a violation: the run ends with it.
	Check, End func(*World) error
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
	idle    map[int]bool // has been idle since the start
	struck  []int        // by fault
	seen    []int        // occasions, by fault
	random  *rand.Rand
}

// point is where a worker stands still.
type point struct {
	name    string
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

// Epoch is what the wall clock shows at the start of every run.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Play runs a scenario once, in the order that c chooses. An error is a *Failure, or says why the host does not start.
func Play(ctx context.Context, s Scenario, c Chooser) error {
	w := &World{scenario: &s, chooser: c, free: true, points: map[int]*point{}, idle: map[int]bool{}, Clock: hostsim.NewManualClock(Epoch),
		struck: make([]int, len(s.Faults)), seen: make([]int, len(s.Faults)), random: rand.New(rand.NewPCG(1, 2))}
	w.changed = sync.NewCond(&w.mu)
	config := s.Host
	config.Clock, config.Random = w.Clock, w.fill
	before := config.Hooks.Before
	config.Hooks.Event = w.event
	config.Hooks.Idle = w.rest
	config.Hooks.Before = func(call *hostsim.Call) hostsim.Verdict {
		if v, stop := w.atCall(call); stop {
			return v
		}
		if before != nil {
			return before(call)
		}
		return hostsim.Proceed()
	}
	var err error
	if w.Host, err = hostsim.New(ctx, config); err != nil {
		return err
	}
	defer w.close()
	w.Host.Wait()
	w.mu.Lock()
	w.free = false
	w.mu.Unlock()
	if err := w.run(); err != nil {
		f := &Failure{Err: err, Steps: w.steps}
		if r, ok := c.(*randomly); ok {
			f.Seed = r.seed
		}
		return f
	}
	return nil
}

// errRedundant ends a run whose order is the same as one before but for steps that may be swapped.
var errRedundant = fmt.Errorf("redundant")

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
			break
		}
		if len(w.steps) == limit {
			return fmt.Errorf("no end after %d steps", limit)
		}
		n := w.chooser.Choose(options)
		if n < 0 {
			return errRedundant
		}
		w.steps = append(w.steps, options[n].Name)
		options[n].Do()
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

// Worker is what every step of a worker touches.
func Worker(n int) Touch { return Touch{fmt.Sprint("worker ", n), true} }

// workerWeight makes a worker's step so much likelier than what a scenario offers without a weight of its own: a worker is rarely held
// up for long.
const workerWeight = 8

func (w *World) step(n int, p *point) Option {
	o := Option{Name: fmt.Sprintf("worker %d: %s", n, p.name), Touches: []Touch{Worker(n)}, Weight: workerWeight}
	if p.call != nil {
		o.Touches = append(o.Touches, Touch{"key " + string(p.call.Key), p.call.Function == setData})
	}
	o.Do = func() { w.proceed(n, p) }
	return o
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
			w.note("  … and crashes there")
		} else if p.call.Function == setData && w.Strike(RefuseCAS) {
			v = hostsim.Fail(hostsim.StatusCasMismatch)
			w.note("  … which the store refuses")
		}
	}
	w.mu.Lock()
	delete(w.points, n)
	w.mu.Unlock()
	p.proceed <- v
}

func (w *World) note(text string) { w.steps = append(w.steps, text) }

// Note adds a line to the steps that a failure prints.
func (w *World) Note(format string, args ...any) { w.note("  … " + fmt.Sprintf(format, args...)) }

// Steps is the number of steps taken so far.
func (w *World) Steps() int { return len(w.steps) }

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
func (w *World) Advance(d time.Duration) { w.Clock.Jump(d) }

func (w *World) event(n int, name string) {
	if name == "start" && n > 0 {
		// Workers start at once, and would draw their random numbers in any order.
		w.mu.Lock()
		for w.free && !w.idle[n-1] {
			w.changed.Wait()
		}
		w.mu.Unlock()
		return
	}
	w.hold(n, name, nil)
}

func (w *World) rest(n int) {
	w.mu.Lock()
	w.idle[n] = true
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
	v = w.hold(call.Worker, what+string(call.Key), call)
	return v, v != hostsim.Proceed()
}

func (w *World) hold(n int, name string, call *hostsim.Call) hostsim.Verdict {
	w.mu.Lock()
	if w.free {
		w.mu.Unlock()
		return hostsim.Proceed()
	}
	p := &point{name: name, call: call, proceed: make(chan hostsim.Verdict, 1)}
	w.points[n] = p
	w.changed.Broadcast()
	w.mu.Unlock()
	return <-p.proceed
}

func (w *World) fill(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range b {
		b[i] = byte(w.random.Uint32())
	}
}

func (w *World) close() {
	w.mu.Lock()
	w.free = true
	for n, p := range w.points {
		p.proceed <- hostsim.Verdict{}
		delete(w.points, n)
	}
	w.mu.Unlock()
	w.Host.Close()
}
