package hostsim

import (
	"sync"
)

// window bounds the bytes that a source may have under way.
type window struct {
	mu     sync.Mutex
	cond   *sync.Cond
	limit  int
	out    int
	closed bool
}

func newWindow(limit int) *window {
	w := &window{limit: limit}
	w.cond = sync.NewCond(&w.mu)
	return w
}

// take waits until less than the limit is under way, then adds n. It is false once the window is closed.
func (w *window) take(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.out >= w.limit && !w.closed {
		w.cond.Wait()
	}
	w.out += n
	return !w.closed
}

func (w *window) give(n int) {
	if n == 0 {
		return
	}
	w.mu.Lock()
	w.out -= n
	w.cond.Broadcast()
	w.mu.Unlock()
}

func (w *window) close() {
	w.mu.Lock()
	w.closed = true
	w.cond.Broadcast()
	w.mu.Unlock()
}
