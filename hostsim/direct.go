package hostsim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/callonce/callonce/hostsim/internal/header"
	"github.com/callonce/callonce/hostsim/internal/upstream"
)

// Request is a request that is played without any connection: see [Host.Play].
type Request struct {
	Method, Path, Authority string
	Headers                 []Header
	// Body is sent in one piece; nil = none.
	Body []byte
	// Metadata is the dynamic metadata of the request, as in [ProxyOptions].
	Metadata map[string]any
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
func (r Reply) Header(name string) string { return (&header.Map{Lines: r.Headers}).Value(name) }

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
	head := &header.Map{Lines: []Header{{Name: ":authority", Value: r.Authority}, {Name: ":path", Value: r.Path}, {Name: ":method", Value: r.Method}, {Name: ":scheme", Value: "http"}}}
	for _, l := range r.Headers {
		head.Add(l.Name, l.Value)
	}
	if r.Body != nil {
		head.Set("content-length", strconv.Itoa(len(r.Body)))
	}
	if !head.Has("x-request-id") {
		head.Add("x-request-id", fmt.Sprint("played-", n))
	}
	posted := w.loop.post("request headers", func() {
		info := streamInfo{method: r.Method, path: r.Path, protocol: "HTTP/1.1", remote: "127.0.0.1:1", local: "127.0.0.1:2", connection: n, time: h.clock.Now()}
		if r.Metadata != nil {
			info.metadata = func() map[string]any { return r.Metadata }
		}
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

func (c *directClient) headers(h *header.Map, end, _ bool) {
	c.head, c.whole = slices.Clone(h.Lines), end
}

func (c *directClient) send(b []byte, end bool, sent func()) {
	c.body, c.whole = append(c.body, b...), end
	sent()
}

func (c *directClient) trailers(*header.Map) { c.whole = true }
func (c *directClient) reset()               {}

type directDialer struct{ server func(*Arrival) }

func (directDialer) Target() string { return "127.0.0.1:3" }

func (d directDialer) Dial(h *header.Map, end bool, events upstream.Events) upstream.Exchange {
	a := &Arrival{Headers: slices.Clone(h.Lines), events: events, server: d.server}
	if end {
		a.arrived()
	}
	return arrivalExchange{a}
}

// Arrival is a request that has reached the server.
type Arrival struct {
	Headers []Header
	Body    []byte

	events upstream.Events
	server func(*Arrival)
	gone   atomic.Bool
}

// Header returns the value of the first line of that name, which must be in lower case.
func (a *Arrival) Header(name string) string { return (&header.Map{Lines: a.Headers}).Value(name) }

// Gone says that the proxy has given the request up: no answer reaches anyone.
func (a *Arrival) Gone() bool { return a.gone.Load() }

// Respond answers with a body in any number of pieces, of which each is a step of its own, as is the end.
func (a *Arrival) Respond(status int, headers []Header, pieces ...[]byte) {
	a.begin(status, headers, pieces)
	a.events.Data(nil, true)
}

// RespondGrpc answers a gRPC callout, with a message (nil = none), a status and its text, all in one step.
func (a *Arrival) RespondGrpc(message []byte, status int, text string) {
	t := &header.Map{Lines: []Header{{Name: "grpc-status", Value: strconv.Itoa(status)}, {Name: "grpc-message", Value: text}}}
	h := &header.Map{Lines: []Header{{Name: ":status", Value: "200"}, {Name: "content-type", Value: "application/grpc"}}}
	var body []byte
	if message != nil {
		body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	}
	if a.events.Whole != nil {
		a.events.Whole(h, body, t)
		return
	}
	a.events.Headers(h, false)
	a.events.Data(body, false)
	a.events.Trailers(t)
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
	a.events.Reset(upstream.ProtocolError())
}

// Reset breaks the connection before any answer.
func (a *Arrival) Reset() { a.events.Reset(upstream.ConnectionTermination()) }

func (a *Arrival) begin(status int, headers []Header, pieces [][]byte) {
	h := &header.Map{Lines: []Header{{Name: ":status", Value: strconv.Itoa(status)}}}
	for _, l := range headers {
		h.Add(l.Name, l.Value)
	}
	a.events.Headers(h, false)
	for _, p := range pieces {
		a.events.Data(slices.Clone(p), false)
	}
}

func (a *Arrival) arrived() {
	if a.server != nil {
		a.server(a)
	}
}

// arrivalExchange is the proxy's side of an arrival.
type arrivalExchange struct{ *Arrival }

func (a arrivalExchange) Send(b []byte, end bool, sent func()) {
	a.Body = append(a.Body, b...)
	sent()
	if end {
		a.arrived()
	}
}

func (a arrivalExchange) SendTrailers(*header.Map) { a.arrived() }
func (a arrivalExchange) Give(int)                 {}
func (a arrivalExchange) Cancel()                  { a.gone.Store(true) }
