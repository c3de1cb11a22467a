package hostsim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
)

// Request is a request that is played without any connection: see [Host.Play].
type Request struct {
	Method, Path, Authority string
	Headers                 []Header
	// Body is sent in one piece; nil = none.
	Body []byte
	// Server is told once the whole request has left the filter, on the worker's loop, where it must not block. It answers through the
	// Arrival, at once or at any later time and from any goroutine. Nil = a server that never answers.
	Server func(*Arrival)
	// Done is told, on the worker's loop, when the stream has ended.
	Done func(Reply)
}

// Reply is what a client got.
type Reply struct {
	Status  int // 0 = no response was begun
	Headers []Header
	Body    []byte
	// Whole says that the response came to its proper end.
	Whole bool
	// Details are Envoy's response code details.
	Details string
}

// Header returns the value of the first line of that name, which must be in lower case.
func (r Reply) Header(name string) string { return (&headerMap{lines: r.Headers}).value(name) }

// Stream is a request that is being played.
type Stream struct {
	w      *worker
	s      *stream
	client *directClient
}

var playedRequests atomic.Uint64

// Play begins a request on a worker and returns at once. Where [Proxy] has connections and goroutines, here every step of the stream is
// a step of the worker's loop, so that a test that holds the loop's steps (see [Hooks]) holds all there is.
func (h *Host) Play(worker int, r Request) (*Stream, error) {
	if worker < 0 || worker >= len(h.workers) {
		return nil, fmt.Errorf("no worker %d: there are %d", worker, len(h.workers))
	}
	n := playedRequests.Add(1)
	w := h.workers[worker]
	p := &Stream{w: w, client: &directClient{}}
	head := &headerMap{lines: []Header{{":authority", r.Authority}, {":path", r.Path}, {":method", r.Method}, {":scheme", "http"}}}
	for _, l := range r.Headers {
		head.add(l.Name, l.Value)
	}
	if r.Body != nil {
		head.set("content-length", strconv.Itoa(len(r.Body)))
	}
	if !head.has("x-request-id") {
		head.add("x-request-id", fmt.Sprint("played-", n))
	}
	posted := w.loop.post("request headers", func() {
		info := streamInfo{method: r.Method, path: r.Path, protocol: "HTTP/1.1", remote: "127.0.0.1:1", local: "127.0.0.1:2", connection: n, time: h.clock.Now()}
		p.s = newStream(w, info, p.client, func(int) {})
		p.s.router = &router{s: p.s, pool: directDialer{r.Server}}
		p.s.request.next = p.s.router
		p.s.onEnd = func(s *stream) {
			if r.Done != nil {
				c := p.client
				r.Done(Reply{Status: s.status, Headers: c.head, Body: c.body, Whole: c.whole, Details: s.details})
			}
		}
		p.s.request.onHeaders(head, r.Body == nil)
	})
	if posted && r.Body != nil {
		posted = w.loop.post("request body", func() { p.s.onRequestData(slices.Clone(r.Body), true) })
	}
	if !posted {
		return nil, errClosed
	}
	return p, nil
}

// Leave is the client going away.
func (p *Stream) Leave() { p.w.loop.post("client gone", func() { p.s.clientGone() }) }

// directClient keeps what is sent to it.
type directClient struct {
	head  []Header
	body  []byte
	whole bool
}

func (c *directClient) headers(h *headerMap, end, _ bool) {
	c.head, c.whole = slices.Clone(h.lines), end
}

func (c *directClient) send(b []byte, end bool, sent func()) {
	c.body, c.whole = append(c.body, b...), end
	sent()
}

func (c *directClient) trailers(*headerMap) { c.whole = true }
func (c *directClient) reset()              {}

type directDialer struct{ server func(*Arrival) }

func (directDialer) target() string { return "127.0.0.1:3" }

func (d directDialer) dial(h *headerMap, end bool, events exchangeEvents) outgoing {
	a := &Arrival{Headers: slices.Clone(h.lines), events: events, server: d.server}
	if end {
		a.arrived()
	}
	return a
}

// Arrival is a request that has reached the server.
type Arrival struct {
	Headers []Header
	Body    []byte

	events exchangeEvents
	server func(*Arrival)
	gone   atomic.Bool
}

// Header returns the value of the first line of that name, which must be in lower case.
func (a *Arrival) Header(name string) string { return (&headerMap{lines: a.Headers}).value(name) }

// Gone says that the proxy has given the request up: no answer reaches anyone.
func (a *Arrival) Gone() bool { return a.gone.Load() }

// Respond answers with a body in any number of pieces, of which each is a step of its own, as is the end.
func (a *Arrival) Respond(status int, headers []Header, pieces ...[]byte) {
	a.begin(status, headers, pieces)
	a.events.data(nil, true)
}

// RespondGrpc answers a gRPC callout, with a message (nil = none), a status and its text, all in one step.
func (a *Arrival) RespondGrpc(message []byte, status int, text string) {
	t := &headerMap{lines: []Header{{"grpc-status", strconv.Itoa(status)}, {"grpc-message", text}}}
	h := &headerMap{lines: []Header{{":status", "200"}, {"content-type", "application/grpc"}}}
	var body []byte
	if message != nil {
		body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	}
	if a.events.whole != nil {
		a.events.whole(h, body, t)
		return
	}
	a.events.headers(h, false)
	a.events.data(body, false)
	a.events.trailers(t)
}

// GrpcMessage is the message of a gRPC callout; ok is false where the body is none.
func (a *Arrival) GrpcMessage() (message []byte, ok bool) {
	if len(a.Body) < 5 || a.Body[0] != 0 || int(binary.BigEndian.Uint32(a.Body[1:])) != len(a.Body)-5 {
		return nil, false
	}
	return a.Body[5:], true
}

// Cut is Respond, but the connection breaks after the last piece.
func (a *Arrival) Cut(status int, headers []Header, pieces ...[]byte) {
	a.begin(status, headers, pieces)
	a.events.reset(protocolError())
}

// Reset breaks the connection before any answer.
func (a *Arrival) Reset() { a.events.reset(connectionTermination()) }

func (a *Arrival) begin(status int, headers []Header, pieces [][]byte) {
	h := &headerMap{lines: []Header{{":status", strconv.Itoa(status)}}}
	for _, l := range headers {
		h.add(l.Name, l.Value)
	}
	a.events.headers(h, false)
	for _, p := range pieces {
		a.events.data(slices.Clone(p), false)
	}
}

func (a *Arrival) arrived() {
	if a.server != nil {
		a.server(a)
	}
}

func (a *Arrival) send(b []byte, end bool, sent func()) {
	a.Body = append(a.Body, b...)
	sent()
	if end {
		a.arrived()
	}
}

func (a *Arrival) sendTrailers(*headerMap) { a.arrived() }
func (a *Arrival) give(int)                {}
func (a *Arrival) cancel()                 { a.gone.Store(true) }
