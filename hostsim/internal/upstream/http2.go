package upstream

//lint:file-ignore SA1019 net/http offers no connection on which a caller decides when streams begin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/callonce/callonce/hostsim/internal/flags"
	"github.com/callonce/callonce/hostsim/internal/flow"
	"github.com/callonce/callonce/hostsim/internal/header"
	"golang.org/x/net/http2"
)

// HTTP2Pool is the HTTP/2 client side, unencrypted, for callouts: one connection, made anew when it has gone. It asks the connection
// itself rather than the Transport, so that nothing is ever sent twice.
type HTTP2Pool struct {
	address     string
	dialTimeout time.Duration
	most        int // bytes of a response's body
	transport   http2.Transport

	mu     sync.Mutex
	conn   *http2.ClientConn
	closed bool
}

// NewHTTP2Pool returns a pool for a server; most bounds the bytes of a response's body.
func NewHTTP2Pool(u *url.URL, dialTimeout time.Duration, most int) *HTTP2Pool {
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "80")
	}
	return &HTTP2Pool{address: address, dialTimeout: dialTimeout, most: most, transport: http2.Transport{AllowHTTP: true, DisableCompression: true}}
}

var errPoolClosed = errors.New("the pool is closed")

func (p *HTTP2Pool) Target() string { return p.address }

// connect gives a connection that takes another request. Callers wait for one another.
func (p *HTTP2Pool) connect(ctx context.Context) (*http2.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPoolClosed
	}
	if p.conn != nil && p.conn.CanTakeNewRequest() {
		return p.conn, nil
	}
	nc, err := (&net.Dialer{Timeout: p.dialTimeout}).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	conn, err := p.transport.NewClientConn(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	p.conn = conn
	return conn, nil
}

func (p *HTTP2Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.conn != nil {
		p.conn.Close()
	}
}

// http2Exchange sends its request once the whole of it is there.
type http2Exchange struct {
	pool   *HTTP2Pool
	events Events
	head   *header.Map
	body   []byte
	ctx    context.Context
	stop   context.CancelFunc
}

func (p *HTTP2Pool) Dial(h *header.Map, end bool, events Events) Exchange {
	x := &http2Exchange{pool: p, events: events, head: h}
	x.ctx, x.stop = context.WithCancel(context.Background())
	if end {
		go x.run()
	}
	return x
}

func (x *http2Exchange) Send(b []byte, end bool, sent func()) {
	x.body = append(x.body, b...)
	sent()
	if end {
		go x.run()
	}
}

// SendTrailers leaves the trailers out: no callout of ours has needed them over HTTP/2.
func (x *http2Exchange) SendTrailers(*header.Map) { go x.run() }

func (x *http2Exchange) Give(int) {}
func (x *http2Exchange) Cancel()  { x.stop() }

func (x *http2Exchange) run() {
	defer x.stop()
	conn, err := x.pool.connect(x.ctx)
	if err != nil {
		x.reset(connectionFailure(err))
		return
	}
	req := &http.Request{Method: x.head.Value(":method"), Host: x.head.Value(":authority"), Header: http.Header{"User-Agent": {""}}, ContentLength: -1,
		URL: &url.URL{Scheme: "http", Host: x.pool.address, Opaque: x.head.Value(":path")}}
	if len(x.body) == 0 {
		req.ContentLength = 0
	} else {
		req.Body = io.NopCloser(bytes.NewReader(x.body))
	}
	for _, l := range x.head.Lines {
		if !strings.HasPrefix(l.Name, ":") {
			req.Header.Add(l.Name, l.Value)
		}
	}
	resp, err := conn.RoundTrip(req.WithContext(x.ctx))
	if err != nil {
		x.reset(http2Reset(err))
		return
	}
	defer resp.Body.Close()
	h := headOf(resp)
	// The package says -1 of a body that goes on without a length, and 0 where the stream has ended.
	end := resp.ContentLength == 0
	x.events.Headers(h, end)
	buf := make([]byte, flow.ReadSize)
	for total := 0; !end; {
		n, err := resp.Body.Read(buf)
		total += n
		if n > 0 {
			x.events.Data(slices.Clone(buf[:n]), false)
		}
		switch {
		case err == nil && total <= x.pool.most:
		case err == io.EOF && len(resp.Trailer) > 0:
			x.events.Trailers(headersOf(resp.Trailer))
			return
		case err == io.EOF:
			x.events.Data(nil, true)
			return
		default:
			x.reset(http2Reset(err))
			return
		}
	}
}

// reset tells of a failure, unless it is our own cancellation.
func (x *http2Exchange) reset(r Reset) {
	if x.ctx.Err() == nil {
		x.events.Reset(r)
	}
}

func http2Reset(err error) Reset {
	if _, ok := errors.AsType[http2.StreamError](err); ok {
		return Reset{name: "remote_reset", Flag: flags.UpstreamRemoteReset, Status: 503}
	}
	if _, ok := errors.AsType[http2.ConnectionError](err); ok {
		return ProtocolError()
	}
	return ConnectionTermination()
}

// headOf is the head of a response: its status, and its headers.
func headOf(resp *http.Response) *header.Map {
	h := headersOf(resp.Header)
	h.Lines = slices.Insert(h.Lines, 0, header.Line{Name: ":status", Value: strconv.Itoa(resp.StatusCode)})
	return h
}

func headersOf(from http.Header) *header.Map {
	h := &header.Map{}
	for _, name := range slices.Sorted(maps.Keys(from)) { // the package keeps no order
		for _, v := range from[name] {
			h.Add(strings.ToLower(name), v)
		}
	}
	return h
}
