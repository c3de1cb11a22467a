package hostsim

//lint:file-ignore SA1019 net/http offers no connection on which a caller decides when streams begin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// http2Pool is the HTTP/2 client side, unencrypted, for callouts: one connection, made anew when it has gone. It asks the connection
// itself rather than the Transport, so that nothing is ever sent twice.
type http2Pool struct {
	address     string
	dialTimeout time.Duration
	transport   http2.Transport

	mu     sync.Mutex
	conn   *http2.ClientConn
	closed bool
}

func newHTTP2Pool(u *url.URL, dialTimeout time.Duration) *http2Pool {
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "80")
	}
	return &http2Pool{address: address, dialTimeout: dialTimeout, transport: http2.Transport{AllowHTTP: true, DisableCompression: true}}
}

func (p *http2Pool) target() string { return p.address }

// connect gives a connection that takes another request. Callers wait for one another.
func (p *http2Pool) connect(ctx context.Context) (*http2.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
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

func (p *http2Pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.conn != nil {
		p.conn.Close()
	}
}

// http2Exchange sends its request once the whole of it is there.
type http2Exchange struct {
	pool   *http2Pool
	events exchangeEvents
	head   *headerMap
	body   []byte
	ctx    context.Context
	giveUp context.CancelFunc
}

func (p *http2Pool) dial(h *headerMap, end bool, events exchangeEvents) outgoing {
	x := &http2Exchange{pool: p, events: events, head: h}
	x.ctx, x.giveUp = context.WithCancel(context.Background())
	if end {
		go x.run()
	}
	return x
}

func (x *http2Exchange) send(b []byte, end bool, sent func()) {
	x.body = append(x.body, b...)
	sent()
	if end {
		go x.run()
	}
}

// sendTrailers leaves the trailers out: no callout of ours has needed them over HTTP/2.
func (x *http2Exchange) sendTrailers(*headerMap) { go x.run() }

func (x *http2Exchange) give(int) {}
func (x *http2Exchange) cancel()  { x.giveUp() }

func (x *http2Exchange) run() {
	defer x.giveUp()
	conn, err := x.pool.connect(x.ctx)
	if err != nil {
		x.reset(connectionFailure(err))
		return
	}
	req := &http.Request{Method: x.head.value(":method"), Host: x.head.value(":authority"), Header: http.Header{"User-Agent": {""}}, ContentLength: -1,
		URL: &url.URL{Scheme: "http", Host: x.pool.address, Opaque: x.head.value(":path")}}
	if len(x.body) == 0 {
		req.ContentLength = 0
	} else {
		req.Body = io.NopCloser(bytes.NewReader(x.body))
	}
	for _, l := range x.head.lines {
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
	h := headersOf(resp.Header)
	h.lines = slices.Insert(h.lines, 0, Header{":status", strconv.Itoa(resp.StatusCode)})
	// The package says -1 of a body that goes on without a length, and 0 where the stream has ended.
	end := resp.ContentLength == 0
	x.events.headers(h, end)
	buf := make([]byte, readSize)
	for total := 0; !end; {
		n, err := resp.Body.Read(buf)
		total += n
		if n > 0 {
			x.events.data(slices.Clone(buf[:n]), false)
		}
		switch {
		case err == nil && total <= maxCalloutBody:
		case err == io.EOF && len(resp.Trailer) > 0:
			x.events.trailers(headersOf(resp.Trailer))
			return
		case err == io.EOF:
			x.events.data(nil, true)
			return
		default:
			x.reset(http2Reset(err))
			return
		}
	}
}

// reset tells of a failure, unless it is our own giving up.
func (x *http2Exchange) reset(r resetReason) {
	if x.ctx.Err() == nil {
		x.events.reset(r)
	}
}

func http2Reset(err error) resetReason {
	if _, ok := errors.AsType[http2.StreamError](err); ok {
		return resetReason{name: "remote_reset", flag: flagUpstreamRemoteReset, status: 503}
	}
	if _, ok := errors.AsType[http2.ConnectionError](err); ok {
		return protocolError()
	}
	return connectionTermination()
}

func headersOf(from http.Header) *headerMap {
	h := &headerMap{}
	for name, values := range from {
		for _, v := range values {
			h.add(strings.ToLower(name), v)
		}
	}
	return h
}
