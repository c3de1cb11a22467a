package hostsim

import (
	"github.com/callonce/callonce/hostsim/internal/header"
	"github.com/tetratelabs/wazero/api"
)

// halfStream is one direction of a stream on its way through the filter: headers, then body, then trailers, each of which the
// module may let pass or hold. It mirrors what Envoy's filter manager does around a single filter.
type halfStream struct {
	s    *stream
	next sink
	// credit gives bytes of the body back to their source once they no longer occupy memory that nothing else bounds.
	release func(n int)
	// tooLarge answers for a held body beyond the limit.
	tooLarge func()
	calls    halfStreamCalls

	headers, trailers         *header.Map
	openHeaders, openTrailers *header.Map // in reach of the module
	state                     halfStreamState
	seen                      bool // headers have arrived
	passed                    bool // headers have gone on
	ended                     bool // the source has sent its last byte
	dead                      bool // what still arrives is dropped
	// buffer is what is held; owed is how much of it the source has not been given back.
	buffer []byte
	owed   int
	// buffering says that the module paused in its last body callback: it then sees the whole of buffer, not the chunk.
	buffering bool
	chunk     []byte
	chunkOpen bool
}

type halfStreamCalls struct {
	headersName, bodyName, trailersName string
	headers, body, trailers             func(*callbacks) api.Function
}

type halfStreamState uint8

const (
	flowing halfStreamState = iota
	// holding: headers, or a part of the body, are held; what follows still goes to the module.
	holding
	// halted: nothing reaches the module until it resumes.
	halted
)

// sink is where a lane leads: the upstream, or the client. owed is the part of the data that the source waits to get back.
type sink interface {
	headers(h *header.Map, end bool)
	data(b []byte, end bool, owed int)
	trailers(t *header.Map)
}

// action is what a callback leads to.
type action uint8

const (
	pass  action = iota
	pause        // hold it, and go on calling the module
	stop         // go no further: a local reply, a failed VM
)

// offer calls the module. What it deferred (resuming, a local reply) has happened when offer returns.
func (l *halfStream) offer(name string, f api.Function, args ...uint64) action {
	s := l.s
	if s.failed {
		return pass // the reply for a failed VM is on its way: there is no module to ask
	}
	if s.ctx == nil || s.ctx.vm.failed != nil {
		s.fail()
		return stop
	}
	v := s.ctx.vm
	result, ok := v.call(s.ctx, name, f, append([]uint64{uint64(s.ctx.id)}, args...)...)
	if !ok {
		s.fail()
		return stop
	}
	a := pass
	switch {
	case v.stopped:
		a = stop
	case uint32(result) == 1:
		a = pause
	case uint32(result) != 0:
		a = stop
	}
	v.runDeferred()
	return a
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (l *halfStream) exports() *callbacks {
	if l.s.ctx == nil {
		return &callbacks{}
	}
	return &l.s.ctx.vm.calls
}

func (l *halfStream) onHeaders(h *header.Map, end bool) {
	if l.s.done || l.dead {
		return
	}
	l.seen, l.headers, l.ended = true, h, end
	l.openHeaders = h
	a := l.offer(l.calls.headersName, l.calls.headers(l.exports()), uint64(header.Count(h)), bit(end))
	if l.s.done || l.dead {
		return
	}
	switch {
	case a == pass:
		l.openHeaders = nil
		l.passHeaders(end)
	case a == pause && l.s.host().config.HoldHeaders:
		l.state = holding
	default:
		l.state = halted
	}
}

func (l *halfStream) passHeaders(end bool) {
	l.passed = true
	l.next.headers(l.headers, end)
}

func (l *halfStream) onData(b []byte, end bool) {
	if l.s.done || l.dead {
		l.release(len(b))
		return
	}
	l.ended = l.ended || end
	if l.state == halted {
		l.buffer = append(l.buffer, b...)
		l.owed += len(b)
		return
	}
	l.offerData(b, end, len(b))
}

func (l *halfStream) offerData(b []byte, end bool, owed int) {
	if l.buffering {
		if !l.hold(b, owed) {
			return
		}
		b, owed = nil, 0
	}
	l.chunk, l.chunkOpen = b, true
	a := l.offer(l.calls.bodyName, l.calls.body(l.exports()), uint64(len(*l.body())), bit(end))
	b, l.chunk, l.buffering = l.chunk, nil, false
	if l.s.done || l.dead {
		l.release(owed)
		return
	}
	switch a {
	case pass:
		l.chunkOpen = false
		if l.state == flowing {
			l.next.data(b, end, owed)
			return
		}
		l.buffer, l.owed = append(l.buffer, b...), l.owed+owed
		l.flush()
	case pause:
		l.state = holding
		if l.hold(b, owed) {
			l.buffering = true
		}
	case stop:
		l.state = holding
		l.release(owed)
	}
}

// hold keeps b. The source gets its credit back, since the limit bounds what is held; beyond it the stream is answered, and hold is false.
func (l *halfStream) hold(b []byte, owed int) bool {
	l.buffer = append(l.buffer, b...)
	l.release(owed)
	if len(l.buffer) > l.s.bufferLimit() {
		l.tooLarge()
		return false
	}
	return true
}

func (l *halfStream) onTrailers(t *header.Map) {
	if l.s.done || l.dead {
		return
	}
	l.trailers, l.ended = t, true
	if l.state != halted {
		l.offerTrailers()
	}
}

func (l *halfStream) offerTrailers() {
	l.openTrailers = l.trailers
	a := l.offer(l.calls.trailersName, l.calls.trailers(l.exports()), uint64(header.Count(l.trailers)))
	if l.s.done || l.dead {
		return
	}
	if a != pass {
		l.state = holding
		return
	}
	l.openTrailers = nil
	if l.state == flowing {
		l.next.trailers(l.trailers)
		return
	}
	l.flush()
}

// flush lets go what is held. What the module has not seen, since everything was halted, goes to it first.
func (l *halfStream) flush() {
	unseen := l.state == halted
	b, owed := l.buffer, l.owed
	l.state, l.buffer, l.owed = flowing, nil, 0
	if !l.passed {
		l.passHeaders(l.ended && len(b) == 0 && l.trailers == nil)
		if l.s.done || l.dead {
			l.release(owed)
			return
		}
	}
	if len(b) > 0 {
		end := l.ended && l.trailers == nil
		if unseen {
			l.offerData(b, end, owed)
		} else {
			l.next.data(b, end, owed)
		}
		if l.s.done || l.dead {
			return
		}
	}
	if l.trailers == nil {
		return
	}
	if unseen {
		l.offerTrailers()
	} else {
		l.next.trailers(l.trailers)
	}
}

// resume is the module's "continue". On a lane that flows it does nothing.
func (l *halfStream) resume() {
	if l.s.done || l.dead || l.state == flowing {
		return
	}
	l.flush()
}

// kill drops what is held and whatever still comes.
func (l *halfStream) kill() {
	l.dead = true
	l.release(l.owed)
	l.buffer, l.owed = nil, 0
}

// body is what the module sees as the body at this moment.
func (l *halfStream) body() *[]byte {
	if l.buffering {
		return &l.buffer
	}
	if l.chunkOpen {
		return &l.chunk
	}
	var none []byte
	return &none
}

var requestCalls = halfStreamCalls{
	headersName: "proxy_on_request_headers", headers: func(c *callbacks) api.Function { return c.requestHeaders },
	bodyName: "proxy_on_request_body", body: func(c *callbacks) api.Function { return c.requestBody },
	trailersName: "proxy_on_request_trailers", trailers: func(c *callbacks) api.Function { return c.requestTrailers },
}

var responseCalls = halfStreamCalls{
	headersName: "proxy_on_response_headers", headers: func(c *callbacks) api.Function { return c.responseHeaders },
	bodyName: "proxy_on_response_body", body: func(c *callbacks) api.Function { return c.responseBody },
	trailersName: "proxy_on_response_trailers", trailers: func(c *callbacks) api.Function { return c.responseTrailers },
}
