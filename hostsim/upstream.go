package hostsim

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
)

// upstreamPool is the HTTP/1.1 client side. It is not net/http's Transport, which repeats a request by itself when a kept connection
// turns out to be dead (certain headers make it believe that it may), corrects a wrong content-length, and does not tell
// how a connection failed. Here a request is written as the filter left it, once.
type upstreamPool struct {
	address     string
	tls         *tls.Config
	dialTimeout time.Duration
	window      int
	trailers    bool // read trailers of HTTP/1 responses; else they are dropped

	mu     sync.Mutex
	idle   []*upstreamConn
	conns  map[*upstreamConn]bool
	closed bool
}

// readSize is the most that one read of a body yields, and so the largest chunk that a filter sees.
const readSize = 64 << 10

func newUpstreamPool(u *url.URL, dialTimeout time.Duration, window int) *upstreamPool {
	p := &upstreamPool{dialTimeout: dialTimeout, window: window, conns: map[*upstreamConn]bool{}}
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

// upstreamConn is a connection with a goroutine that reads it, in use or not: a kept connection that the server closes is noticed at once.
type upstreamConn struct {
	pool *upstreamPool
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
func (p *upstreamPool) connect(x *exchange) (*upstreamConn, error) {
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
	c := &upstreamConn{pool: p, net: nc, r: bufio.NewReaderSize(nc, 32<<10), w: bufio.NewWriterSize(nc, 32<<10)}
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

// writerGrace bounds the wait for the end of a request whose response is complete.
const writerGrace = 50 * time.Millisecond

// assign binds the connection to x, unless either is over.
func (c *upstreamConn) assign(x *exchange) bool {
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

func (c *upstreamConn) close() {
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
	p.idle = slices.DeleteFunc(p.idle, func(i *upstreamConn) bool { return i == c })
	p.mu.Unlock()
}

// read serves one response after another until the connection cannot be kept.
func (c *upstreamConn) read() {
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
			x.reset(connectionTermination())
			return
		}
		if !c.response(x) {
			return
		}
	}
}

// response reads one response for x and says whether the connection can be kept.
func (c *upstreamConn) response(x *exchange) bool {
	head, err := readHead(c.r, x.method)
	if err != nil {
		// A head that breaks off counts as malformed: the connection did say something.
		x.reset(protocolError())
		return false
	}
	if head.length == 0 {
		return c.complete(x, head, func() { x.events.headers(head.headers, true) })
	}
	if x.live() {
		x.events.headers(head.headers, false)
	}
	body := head.body(c.r)
	buf := make([]byte, bodyBuffer(head.length))
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if !x.window.take(n) {
				return false
			}
			x.events.data(slices.Clone(buf[:n]), false)
		}
		var trailers *headerMap
		if err == io.EOF && head.chunked {
			trailers, err = readTrailers(c.r)
			if err == nil {
				err = io.EOF
			}
		}
		switch {
		case err == nil:
		case err == io.EOF && trailers != nil && c.pool.trailers:
			return c.complete(x, head, func() { x.events.trailers(trailers) })
		case err == io.EOF:
			return c.complete(x, head, func() { x.events.data(nil, true) })
		case head.length < 0 && !head.chunked:
			// Whatever ends the connection ends a body without a length: a reset is no worse than an end (measured on 1.40).
			return c.complete(x, head, func() { x.events.data(nil, true) })
		default:
			// A body that ends in the middle, by FIN or by RST, is a mistake of the server's to Envoy (measured on 1.40).
			x.reset(protocolError())
			return false
		}
	}
}

// complete ends the exchange well. The connection goes back to the pool before anyone can ask for it.
func (c *upstreamConn) complete(x *exchange, head *responseHead, last func()) bool {
	x.mu.Lock()
	handedIn := x.ended
	x.mu.Unlock()
	if handedIn && !head.close {
		// A quick server may have answered before the writer could note that it is done.
		select {
		case <-x.flushedAll:
		case <-time.After(writerGrace):
		}
	}
	x.mu.Lock()
	written := x.written
	x.mu.Unlock()
	keep := written && !head.close
	_, chunks, was := x.finish()
	c.mu.Lock()
	c.x = nil
	keep = keep && !c.closed
	c.mu.Unlock()
	if keep {
		p := c.pool
		p.mu.Lock()
		if keep = !p.closed; keep {
			c.idleSince = time.Now()
			p.idle = append(p.idle, c)
		}
		p.mu.Unlock()
	}
	for _, ch := range chunks {
		ch.sent()
	}
	if !was {
		last()
	}
	return keep
}

func (p *upstreamPool) close() {
	p.mu.Lock()
	p.closed = true
	conns := make([]*upstreamConn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	p.mu.Unlock()
	for _, c := range conns {
		c.close()
	}
}
