package hostsim

import (
	"time"

	"github.com/callonce/callonce/hostsim/internal/flags"
)

// idleTimer ends a stream on which nothing moves, as Envoy's stream_idle_timeout does. A nil one never fires.
type idleTimer struct {
	s    *stream
	d    time.Duration
	last time.Duration
	halt func()
}

func newIdleTimer(s *stream, d time.Duration) *idleTimer {
	if d <= 0 {
		return nil
	}
	t := &idleTimer{s: s, d: d, last: s.host().clock.Mono()}
	t.arm(d)
	return t
}

// touch notes that something moved.
func (t *idleTimer) touch() {
	if t != nil {
		t.last = t.s.host().clock.Mono()
	}
}

func (t *idleTimer) stop() {
	if t != nil {
		t.halt()
	}
}

func (t *idleTimer) arm(d time.Duration) {
	t.halt = t.s.host().clock.AfterFunc(d, func() { t.s.worker.loop.post("idle timeout", t.fire) })
}

func (t *idleTimer) fire() {
	s := t.s
	if s.done {
		return
	}
	if left := t.last + t.d - s.host().clock.Mono(); left > 0 {
		t.arm(left)
		return
	}
	status := 408
	if s.request.ended {
		status = 504
	}
	s.localReply(localReply{status: status, body: []byte("stream timeout"), details: "stream_idle_timeout", flags: flags.StreamIdleTimeout})
}
