package schedule

import (
	"fmt"
	"time"

	"github.com/callonce/callonce/hostsim"
	"github.com/callonce/callonce/hostsim/explore"
)

// What a step does is seen from outside: its accesses to shared data and queues, the steps that it posts to workers, its looks at the
// clock. A step is over when every worker stands still again, so whatever happens meanwhile is its doing.

// Touch is something that a step reads or changes.
type Touch = explore.Touch

// Touch says that the present step reads or changes something that other steps may look at too. It is for what a scenario does inside
// of steps that are not its own: when a client gets its answer, when the server is reached.
func (w *World) Touch(what string, writes bool) {
	w.mu.Lock()
	w.touch(what, writes)
	w.mu.Unlock()
}

func (w *World) touch(what string, writes bool) {
	if w.did != nil {
		w.did.Touch(Touch{What: what, Writes: writes})
	}
}

// playing says that a step is being taken.
func (w *World) playing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.did != nil && !w.free
}

func (w *World) began(o *Option) {
	w.mu.Lock()
	w.did = &explore.Footprint{Everything: o.Touches == nil}
	for _, t := range o.Touches {
		w.did.Touch(t)
	}
	w.mu.Unlock()
}

func (w *World) ended() {
	w.mu.Lock()
	did := w.did
	w.did = nil
	w.mu.Unlock()
	if x, ok := w.chooser.(*exploring); ok {
		x.Took(did)
	}
}

// message names the nth step that is posted to a worker.
func message(worker, n int) string { return fmt.Sprint("step ", n, " of worker ", worker) }

// post sees a step posted. Those who post to one worker are in each other's way, for it takes its steps in order.
func (w *World) post(n int, _ string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.workers[n]
	p.posted++
	w.workers[n] = p
	if w.did != nil {
		w.did.Touch(Touch{What: fmt.Sprint("steps of worker ", n), Writes: true})
		w.did.Made = append(w.did.Made, message(n, p.posted))
	}
}

// accessed sees the result of a call. A set that was refused has changed nothing. The numbers that the store gives to values depend on
// the order of all writes; they only ever name a value, so that other numbers for the same values make no difference.
func (w *World) accessed(call *hostsim.Call, status hostsim.Status) {
	if call.Worker < hostsim.MainThread {
		return
	}
	switch call.Function {
	case getData:
		w.Touch(explore.KeyTouch+string(call.Key), false)
	case setData:
		wrote := status == hostsim.StatusOK
		w.Touch(explore.KeyTouch+string(call.Key), wrote)
		if wrote && w.scenario.Compared != nil && w.scenario.Compared(call) {
			w.Touch("what is compared", true)
		}
	case "proxy_register_shared_queue", "proxy_resolve_shared_queue", "proxy_enqueue_shared_queue", "proxy_dequeue_shared_queue":
		w.Touch("queues", true)
	}
}

// watchedClock sees who looks at the clock.
type watchedClock struct {
	*hostsim.ManualClock
	touch func(what string, writes bool)
}

func (c watchedClock) Now() time.Time {
	c.touch("clock", false)
	return c.ManualClock.Now()
}

func (c watchedClock) Mono() time.Duration {
	c.touch("clock", false)
	return c.ManualClock.Mono()
}

func (c watchedClock) AfterFunc(d time.Duration, f func()) func() {
	c.touch("clock", false)
	return c.ManualClock.AfterFunc(d, f)
}
