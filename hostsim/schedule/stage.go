package schedule

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// Epoch is what the wall clock shows at the start of every run.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Play runs a scenario once, in the order that c chooses. An error is a *Failure, or says why the host does not start.
func Play(ctx context.Context, s Scenario, c Chooser) error {
	var st stage
	defer st.close()
	return st.play(ctx, s, c)
}

// stage is a host on which one run is played after the other.
type stage struct {
	host  *hostsim.Host
	clock *hostsim.ManualClock
	world atomic.Pointer[World]
	// again says that other runs follow, for which beginning is kept.
	again     bool
	beginning *beginning
	// fresh and restored count how runs began.
	fresh, restored int
}

type beginning struct {
	host    *hostsim.Snapshot
	workers map[int]progress
	turn    int
}

func (st *stage) play(ctx context.Context, s Scenario, c Chooser) error {
	w := &World{scenario: &s, chooser: c, free: true, points: map[int]*point{}, struck: make([]int, len(s.Faults)), seen: make([]int, len(s.Faults))}
	w.changed = sync.NewCond(&w.mu)
	if !st.restore(w) {
		if err := st.begin(ctx, w); err != nil {
			return w.failure(err)
		}
	}
	err := w.run()
	w.release()
	if err != nil {
		return w.failure(err)
	}
	return nil
}

// failure is a violation; of an error that is none, such as a module that refuses to start, it is just that.
func (w *World) failure(err error) error {
	if w.Host == nil {
		return err
	}
	f := &Failure{Err: err, Steps: w.steps}
	if r, ok := w.chooser.(*randomly); ok {
		f.Seed = r.seed
	}
	return f
}

// begin makes a new host.
func (st *stage) begin(ctx context.Context, w *World) error {
	st.close()
	st.fresh++
	w.workers = map[int]progress{}
	for n := hostsim.MainThread; n < max(w.scenario.Host.Workers, 1); n++ {
		w.workers[n] = progress{random: *rand.NewPCG(1, uint64(n))}
	}
	st.clock = hostsim.NewManualClock(Epoch)
	w.Clock = st.clock
	st.world.Store(w)
	host, err := hostsim.New(ctx, st.config(&w.scenario.Host))
	if err != nil {
		return err
	}
	st.host, w.Host = host, host
	host.Wait()
	w.mu.Lock()
	w.free = false
	w.mu.Unlock()
	if w.scenario.Prepare != nil {
		if err := w.scenario.Prepare(w); err != nil {
			return err
		}
	}
	if !st.again {
		return nil
	}
	w.settle()
	m, err := host.Save()
	if err != nil {
		return err
	}
	st.beginning = &beginning{m, maps.Clone(w.workers), w.turn}
	return nil
}

// restore brings the host back to the beginning. It is false where that cannot be: a new one is needed.
func (st *stage) restore(w *World) bool {
	if st.beginning == nil {
		return false
	}
	st.host.Wait()
	if st.host.Restore(st.beginning.host) != nil {
		return false
	}
	st.restored++
	w.Host, w.Clock, w.free = st.host, st.clock, false
	w.workers, w.turn = maps.Clone(st.beginning.workers), st.beginning.turn
	st.world.Store(w)
	return true
}

// config makes the host report to whichever world is played.
func (st *stage) config(given *hostsim.Config) hostsim.Config {
	c := *given
	c.Clock = watchedClock{st.clock, func(what string, writes bool) { st.world.Load().Touch(what, writes) }}
	c.Random = func(b []byte) { st.world.Load().fill(b) }
	c.Log = func(worker int, level hostsim.LogLevel, text string) {
		if log := st.world.Load().scenario.Host.Log; log != nil {
			log(worker, level, text)
		}
	}
	c.Hooks = hostsim.Hooks{
		Event:  func(n int, name string) { st.world.Load().event(n, name) },
		Posted: func(n int, name string) { st.world.Load().post(n, name) },
		Idle:   func(n int) { st.world.Load().rest(n) },
		Before: func(call *hostsim.Call) hostsim.Verdict {
			w := st.world.Load()
			if v, stop := w.atCall(call); stop {
				return v
			}
			if before := w.scenario.Host.Hooks.Before; before != nil {
				return before(call)
			}
			return hostsim.Proceed()
		},
		After: func(call *hostsim.Call, status hostsim.Status) {
			w := st.world.Load()
			w.accessed(call, status)
			if after := w.scenario.Host.Hooks.After; after != nil {
				after(call, status)
			}
		},
	}
	return c
}

func (st *stage) close() {
	st.beginning = nil
	if st.host == nil {
		return
	}
	st.world.Load().release()
	st.host.Close()
	st.host = nil
}
