// Package flow bounds what is under way between a reader and a writer. It knows nothing of what the bytes are.
package flow

import (
	"sync"
)

// Window bounds the bytes that a source may have under way.
type Window struct {
	mu     sync.Mutex
	cond   *sync.Cond
	limit  int
	out    int
	closed bool
}

// NewWindow returns a window of limit bytes.
func NewWindow(limit int) *Window {
	w := &Window{limit: limit}
	w.cond = sync.NewCond(&w.mu)
	return w
}

// Take waits until less than the limit is under way, then adds n. It is false once the window is closed.
func (w *Window) Take(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.out >= w.limit && !w.closed {
		w.cond.Wait()
	}
	w.out += n
	return !w.closed
}

// Give takes n bytes from what is under way.
func (w *Window) Give(n int) {
	if n == 0 {
		return
	}
	w.mu.Lock()
	w.out -= n
	w.cond.Broadcast()
	w.mu.Unlock()
}

// Close ends all waiting, and any that follows.
func (w *Window) Close() {
	w.mu.Lock()
	w.closed = true
	w.cond.Broadcast()
	w.mu.Unlock()
}

// ReadSize is the most that one read of a body yields, and so the largest chunk that a filter sees.
const ReadSize = 64 << 10

// BodyBuffer is the size for reading a body of a length that may be unknown (-1): short ones, which are most, cost no more than they need.
func BodyBuffer(length int64) int64 {
	if length >= 0 && length < ReadSize {
		return length + 1
	}
	return ReadSize
}
