package hostsim

import "sync"

// loop is the event loop of one thread of the proxy. Steps run one at a time in the order they were posted; everything that
// touches a VM or a stream runs here.
type loop struct {
	worker int
	event  func(int, string)
	posted func(int, string)
	rest   func(int)

	mu     sync.Mutex
	work   *sync.Cond // there is a step, or the end
	idle   *sync.Cond // nothing queued and nothing running
	steps  []step
	busy   bool
	closed bool
	done   chan struct{}
}

type step struct {
	name string
	run  func()
}

func newLoop(worker int, hooks *Hooks) *loop {
	l := &loop{worker: worker, event: hooks.Event, posted: hooks.Posted, rest: hooks.Idle, done: make(chan struct{})}
	l.work, l.idle = sync.NewCond(&l.mu), sync.NewCond(&l.mu)
	go l.run()
	return l
}

// post queues a step and never blocks. It is false when the loop has ended.
func (l *loop) post(name string, run func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if l.posted != nil {
		l.posted(l.worker, name)
	}
	l.steps = append(l.steps, step{name, run})
	l.work.Signal()
	return true
}

// do posts a step and waits until it has run.
func (l *loop) do(name string, run func()) bool {
	ran := make(chan struct{})
	if !l.post(name, func() { defer close(ran); run() }) {
		return false
	}
	select {
	case <-ran:
		return true
	case <-l.done:
		return false
	}
}

func (l *loop) run() {
	defer close(l.done)
	for {
		l.mu.Lock()
		l.busy = false
		if len(l.steps) == 0 {
			l.idle.Broadcast()
			if l.rest != nil {
				l.mu.Unlock()
				l.rest(l.worker)
				l.mu.Lock()
			}
		}
		for len(l.steps) == 0 && !l.closed {
			l.work.Wait()
		}
		if l.closed {
			l.steps = nil
			l.idle.Broadcast()
			l.mu.Unlock()
			return
		}
		s := l.steps[0]
		l.steps = l.steps[1:]
		l.busy = true
		l.mu.Unlock()
		if l.event != nil {
			l.event(l.worker, s.name)
		}
		s.run()
	}
}

// wait returns once no step is queued or running. Steps that others post meanwhile prolong it.
func (l *loop) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.busy || len(l.steps) > 0 {
		l.idle.Wait()
	}
}

// quiet says whether no step is queued or running at this moment.
func (l *loop) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.busy && len(l.steps) == 0
}

// close drops the steps still queued; the one that runs finishes by itself.
func (l *loop) close() {
	l.mu.Lock()
	l.closed = true
	l.work.Signal()
	l.mu.Unlock()
}
