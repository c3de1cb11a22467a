package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/callonce/callonce/hostsim/internal/flow"
	"github.com/callonce/callonce/hostsim/internal/header"
	"github.com/callonce/callonce/hostsim/internal/http1"
)

// Pool is the HTTP/1.1 client side. It is not net/http's Transport, which repeats a request by itself when a kept connection
// turns out to be dead (certain headers make it believe that it may), corrects a wrong content-length, and does not tell
// how a connection failed. Here a request is written as the filter left it, once.
type Pool struct {
	address     string
	tls         *tls.Config
	dialTimeout time.Duration
	window      int
	trailers    bool // read trailers of HTTP/1 responses; else they are dropped

	mu     sync.Mutex
	idle   []*conn
	conns  map[*conn]bool
	closed bool
}

// NewPool returns a pool for a server; window is how many bytes of a response may be under way.
func NewPool(u *url.URL, dialTimeout time.Duration, window int, trailers bool) *Pool {
	p := &Pool{dialTimeout: dialTimeout, window: window, trailers: trailers, conns: map[*conn]bool{}}
	port := u.Port()
	if u.Scheme == "https" {
		p.tls = &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}}
		if port == "" {
			port = "443"
		}
	}
	if port == "" {
		port = "80"
	}
	p.address = net.JoinHostPort(u.Hostname(), port)
	return p
}

// conn is a connection with a goroutine that reads it, in use or not: a kept connection that the server closes is noticed at once.
type conn struct {
	pool *Pool
	net  net.Conn
	r    *bufio.Reader
	w    *bufio.Writer

	idleSince time.Time // guarded by the pool's mutex

	mu     sync.Mutex
	x      *exchange
	closed bool
}

// maxIdle is how long an idle connection may be used again. Node's and uvicorn's servers close theirs after 5 s; a request that meets the
// close is lost. envoy/envoy.yaml has the same limit.
const maxIdle = 4 * time.Second

// connect gives x a connection. It is nil, without an error, when x was cancelled meanwhile.
func (p *Pool) connect(x *exchange) (*conn, error) {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			break
		}
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if time.Since(c.idleSince) > maxIdle {
			c.close()
			continue
		}
		if c.assign(x) {
			return c, nil
		}
	}
	ctx, cancel := x.ctx, context.CancelFunc(func() {})
	if p.dialTimeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, p.dialTimeout)
	}
	defer cancel()
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.address)
	if err == nil && p.tls != nil {
		t := tls.Client(nc, p.tls)
		if err = t.HandshakeContext(ctx); err != nil {
			nc.Close()
		}
		nc = t
	}
	if err != nil {
		if x.ctx.Err() != nil {
			return nil, nil
		}
		return nil, err
	}
	c := &conn{pool: p, net: nc, r: bufio.NewReaderSize(nc, 32<<10), w: bufio.NewWriterSize(nc, 32<<10)}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		nc.Close()
		return nil, nil
	}
	p.conns[c] = true
	p.mu.Unlock()
	if !c.assign(x) {
		c.close()
		return nil, nil
	}
	go c.read()
	return c, nil
}

// writerGrace is how long the end of a response waits for the end of its request, so that whoever sees it can have the connection at once.
const writerGrace = 50 * time.Millisecond

// assign binds the connection to x, unless either is over.
func (c *conn) assign(x *exchange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		// Not an error of the connection, but nobody else will take it now.
		go c.close()
		return true
	}
	c.x, x.conn = x, c
	return true
}

func (c *conn) close() {
	c.mu.Lock()
	was := c.closed
	c.closed = true
	c.mu.Unlock()
	if was {
		return
	}
	c.net.Close()
	p := c.pool
	p.mu.Lock()
	delete(p.conns, c)
	p.idle = slices.DeleteFunc(p.idle, func(i *conn) bool { return i == c })
	p.mu.Unlock()
}

// read serves one response after another until the connection cannot be kept.
func (c *conn) read() {
	defer c.close()
	for {
		_, err := c.r.Peek(1)
		c.mu.Lock()
		x := c.x
		c.mu.Unlock()
		if x == nil {
			return // closed, or spoken to, while idle
		}
		if err != nil {
			x.reset(ConnectionTermination())
			return
		}
		if !c.response(x) {
			return
		}
	}
}

// response reads one response for x and says whether the connection can be kept.
func (c *conn) response(x *exchange) bool {
	head, err := http1.ReadResponseHead(c.r, x.method)
	if err != nil {
		// A head that breaks off counts as malformed: the connection did say something.
		x.reset(ProtocolError())
		return false
	}
	if head.Length == 0 {
		return c.complete(x, head, func() { x.events.Headers(head.Headers, true) })
	}
	if x.live() {
		x.events.Headers(head.Headers, false)
	}
	body := head.Body(c.r)
	buf := make([]byte, flow.BodyBuffer(head.Length))
	got := int64(0)
	for {
		n, err := body.Read(buf)
		got += int64(n)
		if n > 0 {
			if !x.window.Take(n) {
				return false
			}
			b := slices.Clone(buf[:n])
			if got == head.Length && x.sent() {
				return c.complete(x, head, func() { x.events.Data(b, true) })
			}
			x.events.Data(b, false)
		}
		var trailers *header.Map
		if err == io.EOF && head.Chunked {
			trailers, err = http1.ReadTrailers(c.r)
			if err == nil {
				err = io.EOF
			}
		}
		switch {
		case err == nil:
		case err == io.EOF && trailers != nil && c.pool.trailers:
			return c.complete(x, head, func() { x.events.Trailers(trailers) })
		case err == io.EOF:
			return c.complete(x, head, func() { x.events.Data(nil, true) })
		case head.Length < 0 && !head.Chunked:
			// Whatever ends the connection ends a body without a length: a reset is no worse than an end (measured on 1.40).
			return c.complete(x, head, func() { x.events.Data(nil, true) })
		default:
			// A body that ends in the middle, by FIN or by RST, is a mistake of the server's to Envoy (measured on 1.40).
			x.reset(ProtocolError())
			return false
		}
	}
}

// lastGrace is how long the last piece of a response waits for the end of its request, so that both its end and it can be one event. It
// is short: the client waits too.
const lastGrace = 10 * time.Millisecond

// sent says that the whole request has been written, so that nothing need be waited for at the response's end.
func (x *exchange) sent() bool {
	x.mu.Lock()
	handedIn := x.ended
	x.mu.Unlock()
	if !handedIn {
		return false
	}
	select {
	case <-x.flushedAll:
		return true
	case <-time.After(lastGrace):
		return false
	}
}

// complete ends the exchange well. The connection goes back to the pool before anyone can ask for it.
func (c *conn) complete(x *exchange, head *http1.ResponseHead, last func()) bool {
	x.mu.Lock()
	handedIn := x.ended
	x.mu.Unlock()
	if handedIn && !head.Close {
		// A quick server may have answered before the writer could note that it is done.
		select {
		case <-x.flushedAll:
		case <-time.After(writerGrace):
		}
	}
	x.mu.Lock()
	written, late := x.written, x.lastTaken && !head.Close
	x.mu.Unlock()
	_, chunks, was := x.finish()
	keep := written && !head.Close && c.rest()
	for _, ch := range chunks {
		ch.sent()
	}
	if !was {
		last()
	}
	if late && !written {
		// The writer is slow, or the server has not read all of what it has answered. No time says which: the connection is kept once
		// all has been written, and ends when it cannot be.
		<-x.flushedAll
		x.mu.Lock()
		written = x.written
		x.mu.Unlock()
		keep = written && c.rest()
	}
	return keep
}

// rest gives the connection back to the pool, unless either is closed.
func (c *conn) rest() bool {
	c.mu.Lock()
	c.x = nil
	closed := c.closed
	c.mu.Unlock()
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if closed || p.closed {
		return false
	}
	c.idleSince = time.Now()
	p.idle = append(p.idle, c)
	return true
}

// Close cuts all connections.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	conns := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	p.mu.Unlock()
	for _, c := range conns {
		c.close()
	}
}
