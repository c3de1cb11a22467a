package hostsim

import "github.com/callonce/callonce/hostsim/internal/header"

// halfStream is one direction of a stream on its way through the filter: headers, then body, then trailers, each of which the
// module may let pass or have buffered. It mirrors what Envoy's filter manager does around a single filter.
type halfStream struct {
	s    *stream
	next sink
	// release gives bytes of the body back to their source once they no longer occupy memory that nothing else bounds.
	release func(n int)
	// tooLarge answers for a buffered body beyond the limit.
	tooLarge func()
	calls    halfStreamCalls

	headers, trailers         *header.Map
	openHeaders, openTrailers *header.Map // in reach of the module
	state                     halfStreamState
	seen                      bool // headers have arrived
	passed                    bool // headers have gone on
	ended                     bool // the source has sent its last byte
	dead                      bool // what still arrives is dropped
	// buffer is what is buffered; owed is how much of it the source has not been given back.
	buffer []byte
	owed   int
	// buffering says that the module paused in its last body callback: it then sees the whole of buffer, not the chunk.
	buffering bool
	chunk     []byte
	chunkOpen bool
}

// halfStreamCalls are the exports that see a half-stream.
type halfStreamCalls struct {
	headers, body, trailers string
}

type halfStreamState uint8

const (
	flowing halfStreamState = iota
	// paused: headers, or a part of the body, are buffered; what follows still goes to the module.
	paused
	// halted: nothing reaches the module until it resumes.
	halted
)

// sink is where a half-stream leads: the upstream, or the client. owed is the part of the data that the source waits to get back.
type sink interface {
	headers(h *header.Map, end bool)
	data(b []byte, end bool, owed int)
	trailers(t *header.Map)
}

// action is what a callback leads to.
type action uint8

const (
	pass  action = iota
	pause        // buffer it, and go on calling the module
	stop         // go no further: a local reply, a failed VM
)

// offer calls an export of the module. What it deferred (resuming, a local reply) has happened when offer returns.
func (hs *halfStream) offer(export string, args ...uint64) action {
	s := hs.s
	if s.failed {
		return pass // the reply for a failed VM is on its way: there is no module to ask
	}
	if s.ctx == nil || s.ctx.vm.failed != nil {
		s.fail()
		return stop
	}
	v := s.ctx.vm
	result, ok := v.call(s.ctx, export, append([]uint64{uint64(s.ctx.id)}, args...)...)
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

func (hs *halfStream) onHeaders(h *header.Map, end bool) {
	if hs.s.done || hs.dead {
		return
	}
	hs.seen, hs.headers, hs.ended = true, h, end
	hs.openHeaders = h
	a := hs.offer(hs.calls.headers, uint64(header.Count(h)), bit(end))
	if hs.s.done || hs.dead {
		return
	}
	switch {
	case a == pass:
		hs.openHeaders = nil
		hs.passHeaders(end)
	case a == pause && hs.s.host().config.HoldHeaders:
		hs.state = paused
	default:
		hs.state = halted
	}
}

func (hs *halfStream) passHeaders(end bool) {
	hs.passed = true
	hs.next.headers(hs.headers, end)
}

func (hs *halfStream) onData(b []byte, end bool) {
	if hs.s.done || hs.dead {
		hs.release(len(b))
		return
	}
	hs.ended = hs.ended || end
	if hs.state == halted {
		hs.buffer = append(hs.buffer, b...)
		hs.owed += len(b)
		return
	}
	hs.offerData(b, end, len(b))
}

func (hs *halfStream) offerData(b []byte, end bool, owed int) {
	if hs.buffering {
		if !hs.keep(b, owed) {
			return
		}
		b, owed = nil, 0
	}
	hs.chunk, hs.chunkOpen = b, true
	a := hs.offer(hs.calls.body, uint64(len(*hs.body())), bit(end))
	b, hs.chunk, hs.buffering = hs.chunk, nil, false
	if hs.s.done || hs.dead {
		hs.release(owed)
		return
	}
	switch a {
	case pass:
		hs.chunkOpen = false
		if hs.state == flowing {
			hs.next.data(b, end, owed)
			return
		}
		hs.buffer, hs.owed = append(hs.buffer, b...), hs.owed+owed
		hs.flush()
	case pause:
		hs.state = paused
		if hs.keep(b, owed) {
			hs.buffering = true
		}
	case stop:
		hs.state = paused
		hs.release(owed)
	}
}

// keep buffers b. The source gets its credit back, since the limit bounds what is buffered; beyond it the stream is answered, and keep is false.
func (hs *halfStream) keep(b []byte, owed int) bool {
	hs.buffer = append(hs.buffer, b...)
	hs.release(owed)
	if len(hs.buffer) > hs.s.bufferLimit() {
		hs.tooLarge()
		return false
	}
	return true
}

func (hs *halfStream) onTrailers(t *header.Map) {
	if hs.s.done || hs.dead {
		return
	}
	hs.trailers, hs.ended = t, true
	if hs.state != halted {
		hs.offerTrailers()
	}
}

func (hs *halfStream) offerTrailers() {
	hs.openTrailers = hs.trailers
	a := hs.offer(hs.calls.trailers, uint64(header.Count(hs.trailers)))
	if hs.s.done || hs.dead {
		return
	}
	if a != pass {
		hs.state = paused
		return
	}
	hs.openTrailers = nil
	if hs.state == flowing {
		hs.next.trailers(hs.trailers)
		return
	}
	hs.flush()
}

// flush lets go what is buffered. What the module has not seen, since everything was halted, goes to it first.
func (hs *halfStream) flush() {
	unseen := hs.state == halted
	b, owed := hs.buffer, hs.owed
	hs.state, hs.buffer, hs.owed = flowing, nil, 0
	if !hs.passed {
		hs.passHeaders(hs.ended && len(b) == 0 && hs.trailers == nil)
		if hs.s.done || hs.dead {
			hs.release(owed)
			return
		}
	}
	if len(b) > 0 {
		end := hs.ended && hs.trailers == nil
		if unseen {
			hs.offerData(b, end, owed)
		} else {
			hs.next.data(b, end, owed)
		}
		if hs.s.done || hs.dead {
			return
		}
	}
	if hs.trailers == nil {
		return
	}
	if unseen {
		hs.offerTrailers()
	} else {
		hs.next.trailers(hs.trailers)
	}
}

// resume is the module's "continue". On a half-stream that flows it does nothing.
func (hs *halfStream) resume() {
	if hs.s.done || hs.dead || hs.state == flowing {
		return
	}
	hs.flush()
}

// kill drops what is buffered and whatever still comes.
func (hs *halfStream) kill() {
	hs.dead = true
	hs.release(hs.owed)
	hs.buffer, hs.owed = nil, 0
}

// body is what the module sees as the body now.
func (hs *halfStream) body() *[]byte {
	if hs.buffering {
		return &hs.buffer
	}
	if hs.chunkOpen {
		return &hs.chunk
	}
	var none []byte
	return &none
}

var (
	requestCalls  = halfStreamCalls{"proxy_on_request_headers", "proxy_on_request_body", "proxy_on_request_trailers"}
	responseCalls = halfStreamCalls{"proxy_on_response_headers", "proxy_on_response_body", "proxy_on_response_trailers"}
)
