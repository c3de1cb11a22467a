package hostsim

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/callonce/callonce/hostsim/internal/flags"
	"github.com/callonce/callonce/hostsim/internal/header"
)

// stream is one request and its response. It lives on its worker's loop; nothing else touches it.
type stream struct {
	worker   *worker
	ctx      *guestContext // nil when the worker has no live VM
	info     streamInfo
	request  halfStream
	response halfStream
	router   *router
	client   client

	// logging is set while the access log callback runs: all headers can then be read once more.
	logging bool
	// failed says that no callback is due any more: the VM died under this stream, or the filter never was in its way.
	failed bool
	done   bool
	// badRequest says that a local reply was a 400.
	badRequest bool

	status        int
	details       string
	explained     bool // details are known, if only as empty
	flags         flags.Set
	received      int // bytes of the request's body, from the client
	responseBytes int // bytes of the response's body, to the client
	filterState   map[string][]byte
	started       time.Duration
	ended         time.Duration
	idle          *idleTimer
	onEnd         func(*stream)
	accessLog     func(Record) // nil = nobody wants to know
	said          []saidMetadata
}

// streamInfo is what is known of a request when it arrives.
type streamInfo struct {
	method, path, protocol string
	remote, local          string
	connection             uint64
	time                   time.Time
	properties             func(path string) ([]byte, bool)
	metadata               func() map[string]any // nil = none
}

// client is the downstream side. Its methods are called on the worker's loop and must not block.
type client interface {
	// headers begins the response. keep says whether a connection of HTTP/1 may serve another request after it.
	headers(h *header.Map, end, keep bool)
	// send calls sent once the data needs no memory any more.
	send(b []byte, end bool, sent func())
	trailers(t *header.Map)
	// reset ends the response without its proper end.
	reset()
}

// localReply is a response that the proxy makes itself.
type localReply struct {
	status  int
	details string
	flags   flags.Set
	body    []byte
	headers []Header
}

// errReplyAtEnd stands for what Envoy 1.40 makes of a local reply in the stream's end: it calls the end again, and again, until the
// process dies of it.
var errReplyAtEnd = errors.New("local reply in the stream's end: this ends the whole Envoy process")

const failStreamDetails = "wasm_fail_stream"

func (s *stream) host() *Host { return s.worker.host }

// newStream makes a stream and tells the module of it. release functions give credit back to the two sources.
func newStream(w *worker, info streamInfo, c client, releaseRequest func(int)) *stream {
	s := &stream{worker: w, info: info, client: c, started: w.host.clock.Mono()}
	s.request = halfStream{s: s, calls: requestCalls, release: releaseRequest, tooLarge: s.requestTooLarge}
	s.response = halfStream{s: s, calls: responseCalls, release: func(int) {}, tooLarge: s.responseTooLarge}
	s.response.next = responseSink{s}
	w.streams[s] = true
	if v := w.serving(); v != nil {
		root := v.root(w.host.plugin())
		s.ctx = v.newContext(root.plugin, root, s)
		s.ctx.created = true
		v.call(s.ctx, "proxy_on_context_create", uint64(s.ctx.id), uint64(root.id))
		v.runDeferred()
	}
	return s
}

// localReply answers in place of the upstream. It passes the response callbacks if the response has not begun; if only its headers
// are buffered it replaces them past the module; and if they have gone out all that is left is to cut.
func (s *stream) localReply(r localReply) {
	if s.done {
		if s.logging {
			s.ctx.vm.fail(errReplyAtEnd)
		}
		return
	}
	s.setDetails(r.details)
	s.flags |= r.flags
	// Envoy takes a 400 of its own, a filter's too, for a broken message, and trusts the connection no further.
	s.badRequest = s.badRequest || r.status == http.StatusBadRequest
	s.request.kill()
	if s.response.passed {
		s.cut(r.details, r.flags)
		return
	}
	direct := s.response.seen
	s.router.cancel()
	h := &header.Map{Lines: []Header{{Name: ":status", Value: strconv.Itoa(r.status)}}}
	for _, e := range r.headers {
		h.Add(e.Name, e.Value)
	}
	if len(r.body) > 0 {
		h.Set("content-length", strconv.Itoa(len(r.body)))
		if !h.Has("content-type") {
			h.Add("content-type", "text/plain")
		}
	}
	head := s.info.method == "HEAD" || len(r.body) == 0
	if direct {
		s.response.kill()
		s.response.headers = h
		s.response.next.headers(h, head)
		if !head && !s.done {
			s.response.next.data(r.body, true, 0)
		}
		return
	}
	s.response.release = func(int) {}
	s.response.onHeaders(h, head)
	if !head && !s.done {
		s.response.onData(r.body, true)
	}
}

func (s *stream) setDetails(d string) { s.details, s.explained = d, true }

// fail answers for a stream whose VM is dead: an empty 503, or a cut.
func (s *stream) fail() {
	if s.failed || s.done {
		return
	}
	s.failed = true
	s.localReply(localReply{status: 503, details: failStreamDetails})
}

// refuse answers a request that the filter never gets to see, but for its end.
func (s *stream) refuse(r localReply) {
	s.failed = true
	s.badRequest = r.flags&flags.DownstreamProtocolError != 0 || r.status == http.StatusRequestTimeout
	s.localReply(r)
}

// bufferLimit is how much may be buffered of either body.
func (s *stream) bufferLimit() int {
	if s.info.protocol == "HTTP/2" {
		return s.host().config.BufferLimitHTTP2
	}
	return s.host().config.BufferLimit
}

func (s *stream) requestTooLarge() {
	s.localReply(localReply{status: 413, body: []byte("Payload Too Large"), details: "request_payload_too_large"})
}

func (s *stream) responseTooLarge() {
	s.localReply(localReply{status: 500, body: []byte("Internal Server Error"), details: "response_payload_too_large"})
}

// cut ends the response in the middle.
func (s *stream) cut(details string, flags flags.Set) {
	if s.done {
		return
	}
	s.setDetails(details)
	s.flags |= flags
	s.client.reset()
	s.finish()
}

// surplus ends a response that the module made longer than its content-length. Envoy would send the rest all the same, for the client to
// stumble over.
func (s *stream) surplus() {
	if s.host().config.Log != nil {
		s.host().config.Log(s.worker.number, LogError, "the response's body is longer than its content-length: cut")
	}
	s.cut("response_longer_than_content_length", 0)
}

// clientGone ends the stream because the client has left: no response callback tells the module, only the end.
func (s *stream) clientGone() {
	if s.done {
		return
	}
	s.setDetails("downstream_remote_disconnect")
	s.flags |= flags.DownstreamConnectionTermination
	s.finish()
}

// finish ends the stream: the module is told, in Envoy's order, and forgets it.
func (s *stream) finish() {
	if s.done {
		return
	}
	s.done = true
	s.request.kill()
	s.response.kill()
	s.router.cancel()
	s.idle.stop()
	s.ended = s.host().clock.Mono()
	var logged Record
	if c := s.ctx; c != nil {
		v := c.vm
		s.logging = true
		v.call(c, "proxy_on_log", uint64(c.id))
		v.runDeferred()
		s.logging = false
		if s.accessLog != nil {
			// Envoy's access log is written by now: what the module sets in its end is too late for it.
			logged = s.record()
		}
		s.request.openHeaders, s.response.openHeaders = nil, nil
		v.call(c, "proxy_on_done", uint64(c.id))
		v.runDeferred()
		v.call(c, "proxy_on_delete", uint64(c.id))
		v.runDeferred()
		delete(v.contexts, c.id)
	}
	delete(s.worker.streams, s)
	if s.accessLog != nil {
		if s.ctx == nil {
			logged = s.record()
		}
		s.accessLog(logged)
	}
	if s.onEnd != nil {
		s.onEnd(s)
	}
}

func (s *stream) resume(l *halfStream) { l.resume() }

func (s *stream) onRequestData(b []byte, end bool) {
	s.received += len(b)
	s.idle.touch()
	s.request.onData(b, end)
}

// responseSink passes a response on to the client and notes what the access log wants to know.
type responseSink struct{ s *stream }

func (r responseSink) headers(h *header.Map, end bool) {
	r.s.response.passed = true
	r.s.status, _ = strconv.Atoi(h.Value(":status"))
	r.s.idle.touch()
	r.s.client.headers(h, end, r.s.request.ended && !r.s.badRequest)
	if end {
		r.s.finish()
	}
}

func (r responseSink) data(b []byte, end bool, owed int) {
	r.s.responseBytes += len(b)
	r.s.idle.touch()
	release := r.s.response.release
	r.s.client.send(b, end, func() { release(owed) })
	if end {
		r.s.finish()
	}
}

func (r responseSink) trailers(t *header.Map) {
	r.s.client.trailers(t)
	r.s.finish()
}
