package hostsim

import (
	"sort"
	"sync"
	"time"
)

// Clock is the time that modules, ticks and every timeout of the host go by.
type Clock interface {
	// Now is the wall clock, which may be stepped.
	Now() time.Time
	// Mono is the time since some fixed origin; it never goes back.
	Mono() time.Duration
	// AfterFunc calls f on a goroutine of its own (a ManualClock: on the one that advances it) once d has passed. stop
	// prevents the call if it has not begun.
	AfterFunc(d time.Duration, f func()) (stop func())
}

// RealClock returns the clock of the machine. Its Mono counts from the first call of RealClock in the process.
func RealClock() Clock { return realClock{} }

type realClock struct{}

var processStart = time.Now()

func (realClock) Now() time.Time      { return time.Now() }
func (realClock) Mono() time.Duration { return time.Since(processStart) }
func (realClock) AfterFunc(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// ManualClock moves only when told. It is safe for use by several goroutines; only one may advance it at a time.
type ManualClock struct {
	mu     sync.Mutex
	wall   time.Time
	mono   time.Duration
	timers []*manualTimer
	seq    int
	settle []*func()
}

type manualTimer struct {
	at   time.Duration
	seq  int
	f    func()
	dead bool
}

// NewManualClock returns a clock whose wall shows start. Its Mono begins at one hour, so that a module that takes zero for
// "never" is not misled.
func NewManualClock(start time.Time) *ManualClock {
	return &ManualClock{wall: start, mono: time.Hour}
}

// Now is the wall clock.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

// Mono is the monotonic clock.
func (c *ManualClock) Mono() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono
}

// AfterFunc arranges for f to run when the monotonic clock has moved on by d.
func (c *ManualClock) AfterFunc(d time.Duration, f func()) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	t := &manualTimer{at: c.mono + d, seq: c.seq, f: f}
	c.timers = append(c.timers, t)
	return func() {
		c.mu.Lock()
		t.dead = true
		c.mu.Unlock()
	}
}

// Step moves the wall clock alone, as an administrator or NTP would, in either direction.
func (c *ManualClock) Step(d time.Duration) {
	c.mu.Lock()
	c.wall = c.wall.Add(d)
	c.mu.Unlock()
}

// Advance moves both clocks by d and fires on the way, each at its own time, the timers that fall due. After each it waits
// until the workers of every Host on this clock have nothing left to do, so that a tick that asks for the next tick gets it.
// Do not call it while a hook holds a worker: use Jump.
func (c *ManualClock) Advance(d time.Duration) { c.move(d, true) }

// Jump is Advance without the waiting: timers fire, and what they cause happens in the background.
func (c *ManualClock) Jump(d time.Duration) { c.move(d, false) }

func (c *ManualClock) move(d time.Duration, wait bool) {
	c.mu.Lock()
	end := c.mono + d
	for {
		t := c.due(end)
		if t == nil {
			break
		}
		c.to(max(t.at, c.mono))
		settle := append([]*func(){}, c.settle...)
		c.mu.Unlock()
		t.f()
		if wait {
			for _, s := range settle {
				(*s)()
			}
		}
		c.mu.Lock()
	}
	c.to(end)
	c.mu.Unlock()
}

func (c *ManualClock) to(mono time.Duration) {
	c.wall = c.wall.Add(mono - c.mono)
	c.mono = mono
}

// due takes the earliest live timer at or before end.
func (c *ManualClock) due(end time.Duration) *manualTimer {
	live := c.timers[:0]
	for _, t := range c.timers {
		if !t.dead {
			live = append(live, t)
		}
	}
	c.timers = live
	sort.SliceStable(live, func(i, j int) bool {
		if live[i].at != live[j].at {
			return live[i].at < live[j].at
		}
		return live[i].seq < live[j].seq
	})
	if len(live) == 0 || live[0].at > end {
		return nil
	}
	t := live[0]
	c.timers = live[1:]
	return t
}

// onSettle registers what Advance waits for; the returned function takes it back.
func (c *ManualClock) onSettle(f func()) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &f
	c.settle = append(c.settle, p)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, s := range c.settle {
			if s == p {
				c.settle = append(c.settle[:i:i], c.settle[i+1:]...)
				return
			}
		}
	}
}

// clockSnapshot is a ManualClock as it once was.
type clockSnapshot struct {
	wall   time.Time
	mono   time.Duration
	timers []*manualTimer
	seq    int
}

func (c *ManualClock) save() clockSnapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	var live []*manualTimer
	for _, t := range c.timers {
		if !t.dead {
			live = append(live, t)
		}
	}
	return clockSnapshot{c.wall, c.mono, live, c.seq}
}

func (c *ManualClock) restore(m clockSnapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.mono, c.seq = m.wall, m.mono, m.seq
	c.timers = append([]*manualTimer{}, m.timers...)
	for _, t := range c.timers {
		t.dead = false
	}
}
