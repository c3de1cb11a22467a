package hostsim

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/callonce/callonce/hostsim/internal/downstream"
	"github.com/callonce/callonce/hostsim/internal/flags"
	"github.com/callonce/callonce/hostsim/internal/flow"
	"github.com/callonce/callonce/hostsim/internal/header"
	"github.com/callonce/callonce/hostsim/internal/http1"
	"github.com/callonce/callonce/hostsim/internal/upstream"
)

// ProxyOptions shapes a Proxy; the zero value is usable.
type ProxyOptions struct {
	// AccessLog gets every finished request. It runs on the worker's loop and should return soon.
	AccessLog func(Record)
	// Pick chooses the worker of a request; nil gives every connection a worker in turn, which is what a kernel does on average.
	Pick func(*http.Request) int
	// Properties answers proxy_get_property for one request, before Config.Properties; the path is joined with dots.
	Properties func(r *http.Request, path string) ([]byte, bool)
	// Metadata is the dynamic metadata of one request: the name of a filter → what it left, a map[string]any as encoding/json makes
	// it of an object.
	Metadata func(r *http.Request) map[string]any
	// RouteRetries is how often the route sends a request again by itself after a reset or a 5xx, unless the request says
	// x-envoy-max-retries.
	RouteRetries int
	// ResponseTimeout answers 504 when the upstream has not finished its response so long after the request's end; 0 = never.
	ResponseTimeout time.Duration
	// IdleTimeout answers 408 or 504 when nothing has moved on a stream for so long; 0 = never.
	IdleTimeout time.Duration
	// ConnectTimeout bounds connecting to the upstream; 0 means 5 s.
	ConnectTimeout time.Duration
	// HeadersTimeout answers 408 when a request over HTTP/1 has begun and its headers are not whole so long after; 0 = never.
	HeadersTimeout time.Duration
	// Trailers lets HTTP/1 trailers through, which Envoy drops by default.
	Trailers bool
	// UpstreamHTTP2 speaks unencrypted HTTP/2 to the upstream, as a cluster with http2_protocol_options does. Trailers of a request go on
	// there only where its header "trailer" names them.
	UpstreamHTTP2 bool
}

// Proxy puts a Host in front of an upstream. As an http.Handler it works in any server; Serve runs one of its own that knows
// connections and speaks HTTP/1.1 and unencrypted HTTP/2.
type Proxy struct {
	host   *Host
	opts   ProxyOptions
	pool   cluster
	server *http.Server
	conns  connTable
}

const defaultConnectTimeout = 5 * time.Second

// NewProxy returns a proxy that sends what passes h's module to the scheme, host and port of server.
func NewProxy(h *Host, server *url.URL, o ProxyOptions) *Proxy {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = defaultConnectTimeout
	}
	p := &Proxy{host: h, opts: o, conns: connTable{known: map[string]uint64{}}}
	p.pool = upstream.NewPool(server, o.ConnectTimeout, h.config.BufferLimit, o.Trailers)
	if o.UpstreamHTTP2 {
		p.pool = upstream.NewHTTP2Streams(server, o.ConnectTimeout, h.config.BufferLimit)
	}
	p.server = &http.Server{Handler: p, Protocols: new(http.Protocols), ConnContext: p.conns.context, DisableGeneralOptionsHandler: true}
	p.server.Protocols.SetHTTP1(true)
	p.server.Protocols.SetUnencryptedHTTP2(true)
	return p
}

// Wrap puts a handler around the proxy's own, for Serve. Call it before.
func (p *Proxy) Wrap(around func(http.Handler) http.Handler) {
	p.server.Handler = around(p.server.Handler)
}

// Serve accepts connections until Shutdown or Close, and then returns nil.
func (p *Proxy) Serve(l net.Listener) error {
	if err := p.server.Serve(downstream.Listener{Listener: l, HeadersTimeout: p.opts.HeadersTimeout}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown stops accepting and waits for open streams until ctx ends; those that are left then are cut.
func (p *Proxy) Shutdown(ctx context.Context) error {
	err := p.server.Shutdown(ctx)
	return errors.Join(err, p.Close())
}

// Close cuts everything. It does not close the Host.
func (p *Proxy) Close() error {
	err := p.server.Close()
	p.pool.Close()
	return err
}

// connTable numbers connections. A server that is not our own does not tell of them, but each has its remote address.
type connTable struct {
	next  atomic.Uint64
	mu    sync.Mutex
	known map[string]uint64
}

type connKey struct{}

// maxKnown bounds the addresses remembered; forgetting them only moves a connection to another worker.
const maxKnown = 4096

func (t *connTable) context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(downstream.Context(ctx, c), connKey{}, t.next.Add(1))
}

func (t *connTable) of(r *http.Request) uint64 {
	if id, ok := r.Context().Value(connKey{}).(uint64); ok {
		return id
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id, ok := t.known[r.RemoteAddr]
	if !ok {
		if len(t.known) >= maxKnown {
			clear(t.known)
		}
		id = t.next.Add(1)
		t.known[r.RemoteAddr] = id
	}
	return id
}

// ServeHTTP carries one request through the filter and to the upstream and back. It panics with http.ErrAbortHandler, as
// handlers do, to cut a response.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn := p.conns.of(r)
	number := int((conn - 1) % uint64(len(p.host.workers)))
	if p.opts.Pick != nil {
		number = p.opts.Pick(r)
	}
	if number < 0 || number >= len(p.host.workers) {
		http.Error(w, fmt.Sprintf("hostsim: ProxyOptions.Pick chose worker %d of %d", number, len(p.host.workers)), http.StatusInternalServerError)
		return
	}
	worker := p.host.workers[number]
	control := http.NewResponseController(w)
	if r.ProtoMajor == 1 {
		control.EnableFullDuplex() // else the server reads the whole body before it lets an early reply out
	}
	head := requestHeaders(r)
	end := r.Body == nil || r.Body == http.NoBody || r.ProtoMajor == 2 && r.ContentLength == 0
	c := newHTTPClient(r)
	window := flow.NewWindow(p.host.config.BufferLimit)
	fed := make(chan struct{})
	var body *feeder
	var early func(*stream)
	more := false
	if end {
		close(fed)
	} else {
		body = newFeeder(r, window, p.opts.Trailers)
		fed = body.fed
		early, more = body.early()
	}
	var s *stream
	if !worker.loop.post("request headers", func() {
		s = p.newStream(worker, r, conn, c, window)
		if reply := refusal(r); reply != nil {
			s.request.ended = end && r.RequestURI == "*" // else the connection ends with it
			s.refuse(*reply)
			return
		}
		s.request.onHeaders(head, end)
		if early != nil {
			early(s)
		}
	}) {
		http.Error(w, "hostsim: the host is closed", http.StatusServiceUnavailable)
		return
	}
	if more {
		// The loop runs steps in the order of their posting, so s is set in all of them.
		go body.run(func(name string, do func(*stream)) { worker.loop.post(name, func() { do(s) }) })
	}
	gone := func() { worker.loop.post("client gone", func() { s.clientGone() }) }
	surplus := func() { worker.loop.post("surplus", func() { s.surplus() }) }
	how := c.write(r.Context(), w, control, worker.loop.done, gone, surplus)
	window.Close()
	select {
	case <-fed:
	default:
		// A body that still arrives has nobody to read it, and HTTP/1 can only close the connection. Not at once: a client that is
		// busy sending would find an error in place of the reply that it has.
		patience := time.Duration(0)
		if how == endedBy {
			patience = delayedClose
		}
		control.SetReadDeadline(time.Now().Add(patience))
		<-fed
	}
	if how == cutOff {
		panic(http.ErrAbortHandler)
	}
}

// delayedClose is Envoy's delayed_close_timeout.
const delayedClose = time.Second

func (p *Proxy) newStream(worker *worker, r *http.Request, conn uint64, c client, w *flow.Window) *stream {
	info := streamInfo{method: r.Method, path: requestPath(r), protocol: protocolName(r), remote: r.RemoteAddr, connection: conn, time: p.host.clock.Now()}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		info.local = a.String()
	}
	if p.opts.Properties != nil {
		info.properties = func(path string) ([]byte, bool) { return p.opts.Properties(r, path) }
	}
	if p.opts.Metadata != nil {
		info.metadata = func() map[string]any { return p.opts.Metadata(r) }
	}
	s := newStream(worker, info, c, w.Give)
	s.router = &router{s: s, pool: p.pool, opts: routeOptions{retries: p.opts.RouteRetries, responseTimeout: p.opts.ResponseTimeout, endWithData: p.opts.UpstreamHTTP2}}
	s.request.next = s.router
	s.idle = newIdleTimer(s, p.opts.IdleTimeout)
	s.accessLog = p.opts.AccessLog
	return s
}

// refusal is the answer to a request that the filter never sees, or nil.
func refusal(r *http.Request) *localReply {
	switch reply := downstream.Refused(r); {
	case reply != nil:
		local := refusalReply(*reply)
		return &local
	case wantsUpgrade(r):
		return &localReply{status: http.StatusForbidden, details: "upgrade_failed"}
	case r.Method == http.MethodConnect:
		return &localReply{status: http.StatusNotFound, details: "route_not_found", flags: flags.NoRouteFound}
	case r.RequestURI == "*":
		return &localReply{status: http.StatusNotFound, details: "absolute_path_rejected"}
	}
	return nil
}

// refusalReply is the answer to a request that is not as HTTP/1 should be.
func refusalReply(r http1.Refused) localReply {
	reply := localReply{status: r.Status, body: []byte(r.Body), details: r.Details}
	if r.Broken {
		reply.flags = flags.DownstreamProtocolError
	}
	return reply
}

// wantsUpgrade finds what Envoy refuses unless configured otherwise. An upgrade to h2c is ignored rather than refused.
func wantsUpgrade(r *http.Request) bool {
	if r.ProtoMajor != 1 || !strings.Contains(strings.ToLower(strings.Join(r.Header["Connection"], ",")), "upgrade") {
		return false
	}
	u := r.Header.Get("Upgrade")
	return u != "" && !strings.EqualFold(u, "h2c")
}

func protocolName(r *http.Request) string {
	if r.ProtoMajor == 2 {
		return "HTTP/2"
	}
	return r.Proto
}

func requestPath(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") || r.RequestURI == "*" {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

// hopByHop are the headers that belong to one connection.
var hopByHop = []string{"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}

// requestHeaders is the request as a filter in Envoy sees it: pseudo headers first, connection headers gone, an id and the scheme added.
func requestHeaders(r *http.Request) *header.Map {
	h := &header.Map{Lines: []Header{{Name: ":authority", Value: r.Host}, {Name: ":path", Value: requestPath(r)}, {Name: ":method", Value: r.Method}, {Name: ":scheme", Value: scheme(r)}}}
	nominated := strings.Split(strings.ToLower(strings.Join(r.Header["Connection"], ",")), ",")
	for i := range nominated {
		nominated[i] = strings.TrimSpace(nominated[i])
	}
	for _, l := range header.FromHTTP(r.Header).Lines {
		te := l.Name == "te" && l.Value != "trailers"
		if !slices.Contains(hopByHop, l.Name) && !slices.Contains(nominated, l.Name) && l.Name != "expect" && !te {
			h.Lines = append(h.Lines, l)
		}
	}
	if len(r.Trailer) > 0 { // net/http has taken the header out
		h.Add("trailer", strings.ToLower(strings.Join(slices.Sorted(maps.Keys(r.Trailer)), ", ")))
	}
	if !h.Has("x-forwarded-proto") {
		h.Add("x-forwarded-proto", "http")
	}
	if !h.Has("x-request-id") {
		h.Add("x-request-id", newRequestID())
	}
	return h
}

// scheme is what the request itself says, in the address of a server; there is no TLS here.
func scheme(r *http.Request) string {
	if r.URL.IsAbs() {
		return r.URL.Scheme
	}
	return "http"
}

// newRequestID is a random UUID; a set of them needs no seed, since nothing that a filter decides may hang on it.
func newRequestID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
