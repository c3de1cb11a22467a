package hostsim

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// upstreamPool is the HTTP/1.1 client side. It is not net/http's Transport, which repeats a request by itself when a kept connection
// turns out to be dead (an Idempotency-Key header makes it believe that it may), corrects a wrong content-length, and does not tell
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

// resetReason says how an exchange failed, in the words of Envoy's response code details.
type resetReason struct {
	name      string // "connection_termination"
	transport string // why a connection could not be made
	flag      responseFlags
	status    int
}

// details is the part in braces of the response code details.
func (r resetReason) details() string {
	if r.transport == "" {
		return r.name
	}
	return r.name + "|" + strings.ReplaceAll(r.transport, " ", "_")
}

// text is the body of the reply that Envoy makes for it.
func (r resetReason) text() string {
	return "upstream connect error or disconnect/reset before headers. reset reason: " + strings.ReplaceAll(r.name, "_", " ")
}

func connectionTermination() resetReason {
	return resetReason{name: "connection_termination", flag: flagUpstreamConnectionTermination, status: 503}
}

func protocolError() resetReason {
	return resetReason{name: "protocol_error", flag: flagUpstreamProtocolError, status: 502}
}

func connectionFailure(err error) resetReason {
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return resetReason{name: "connection_timeout", flag: flagUpstreamConnectionFailure, status: 503}
	}
	cause := err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		cause = errno.Error()
	}
	cause = strings.ToUpper(cause[:1]) + cause[1:]
	return resetReason{name: "remote_connection_failure", transport: "delayed connect error: " + cause, flag: flagUpstreamConnectionFailure, status: 503}
}

// exchangeEvents are called in order, from goroutines of the exchange. Nothing follows an end or a reset.
type exchangeEvents struct {
	headers  func(h *headerMap, end bool)
	data     func(b []byte, end bool)
	trailers func(t *headerMap)
	reset    func(r resetReason)
}

// exchange is one request to the upstream and its response.
type exchange struct {
	pool    *upstreamPool
	events  exchangeEvents
	method  string
	head    []byte
	chunked bool
	noBody  bool
	ctx     context.Context
	stop    context.CancelFunc
	window  *window

	mu      sync.Mutex
	wake    chan struct{}
	chunks  []sentChunk
	tail    *headerMap // trailers
	ended   bool
	written bool // all of the request has gone out
	over    bool // an end, a reset or a cancellation has happened
	conn    *upstreamConn
}

type sentChunk struct {
	b      []byte
	sent   func()
	ending bool
}

// open begins an exchange; the body follows by send, unless end is true.
func (p *upstreamPool) open(h *headerMap, end bool, events exchangeEvents) *exchange {
	x := &exchange{pool: p, events: events, method: h.value(":method"), noBody: end, ended: end, wake: make(chan struct{}, 1), window: newWindow(p.window)}
	x.head, x.chunked = formatRequest(h, end)
	x.ctx, x.stop = context.WithCancel(context.Background())
	go x.run()
	return x
}

// formatRequest writes the request head as it stands. The body's framing follows the content-length header, right or wrong.
func formatRequest(h *headerMap, end bool) (head []byte, chunked bool) {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nhost: %s\r\n", h.value(":method"), h.value(":path"), h.value(":authority"))
	for _, l := range h.lines {
		if strings.HasPrefix(l.Name, ":") || l.Name == "host" || l.Name == "transfer-encoding" {
			continue
		}
		b = fmt.Appendf(b, "%s: %s\r\n", l.Name, l.Value)
	}
	if !end && !h.has("content-length") {
		chunked = true
		b = append(b, "transfer-encoding: chunked\r\n"...)
	}
	if end && !h.has("content-length") && slices.Contains([]string{"POST", "PUT", "PATCH"}, h.value(":method")) {
		b = append(b, "content-length: 0\r\n"...)
	}
	return append(b, "\r\n"...), chunked
}

// send queues a piece of the body. sent is called once it needs no memory any more.
func (x *exchange) send(b []byte, end bool, sent func()) {
	x.mu.Lock()
	over := x.over
	if !over {
		x.chunks = append(x.chunks, sentChunk{b, sent, end})
		x.ended = x.ended || end
	}
	x.mu.Unlock()
	if over {
		sent()
		return
	}
	x.signal()
}

func (x *exchange) sendTrailers(t *headerMap) {
	x.mu.Lock()
	x.tail = t
	x.mu.Unlock()
	x.send(nil, true, func() {})
}

func (x *exchange) signal() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// cancel gives the exchange up; a connection that carried it is closed. No event follows.
func (x *exchange) cancel() {
	c, chunks, was := x.finish()
	if was {
		return
	}
	if c != nil {
		c.close()
	}
	for _, ch := range chunks {
		ch.sent()
	}
}

// finish marks the exchange as over and says whether it was already.
func (x *exchange) finish() (*upstreamConn, []sentChunk, bool) {
	x.mu.Lock()
	was, chunks := x.over, x.chunks
	x.over, x.chunks = true, nil
	c := x.conn
	x.mu.Unlock()
	x.stop()
	x.window.close()
	return c, chunks, was
}

func (x *exchange) reset(r resetReason) {
	c, chunks, was := x.finish()
	if c != nil {
		c.close()
	}
	for _, ch := range chunks {
		ch.sent()
	}
	if !was {
		x.events.reset(r)
	}
}

func (x *exchange) live() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.over
}

// run connects and writes the request. Failures to write are left to the reader, which may still find a response.
func (x *exchange) run() {
	c, err := x.pool.connect(x)
	if err != nil {
		x.reset(connectionFailure(err))
		return
	}
	if c == nil {
		return // cancelled meanwhile
	}
	c.w.Write(x.head)
	if x.noBody {
		x.flushed(c)
		return
	}
	for {
		x.mu.Lock()
		chunks := x.chunks
		x.chunks = nil
		tail := x.tail
		x.mu.Unlock()
		for _, ch := range chunks {
			x.writeChunk(c, ch, tail)
			ch.sent()
			if ch.ending {
				x.flushed(c)
				return
			}
		}
		if len(chunks) == 0 {
			c.w.Flush()
			select {
			case <-x.wake:
			case <-x.ctx.Done():
				return
			}
		}
	}
}

func (x *exchange) writeChunk(c *upstreamConn, ch sentChunk, tail *headerMap) {
	if !x.chunked {
		c.w.Write(ch.b)
		return
	}
	if len(ch.b) > 0 {
		fmt.Fprintf(c.w, "%x\r\n", len(ch.b))
		c.w.Write(ch.b)
		c.w.WriteString("\r\n")
	}
	if ch.ending {
		c.w.WriteString("0\r\n")
		if tail != nil {
			for _, l := range tail.lines {
				fmt.Fprintf(c.w, "%s: %s\r\n", l.Name, l.Value)
			}
		}
		c.w.WriteString("\r\n")
	}
}

func (x *exchange) flushed(c *upstreamConn) {
	err := c.w.Flush()
	x.mu.Lock()
	x.written = err == nil
	x.mu.Unlock()
}

// upstreamConn is a connection with a goroutine that reads it, in use or not: a kept connection that the server closes is noticed at once.
type upstreamConn struct {
	pool *upstreamPool
	net  net.Conn
	r    *bufio.Reader
	w    *bufio.Writer

	mu     sync.Mutex
	x      *exchange
	closed bool
}

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

// fromHTTP lists headers by name, since net/http does not keep the order of different names.
func fromHTTP(m http.Header) *headerMap {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	h := &headerMap{}
	for _, n := range names {
		for _, v := range m[n] {
			h.add(n, v)
		}
	}
	return h
}

// window bounds the bytes that a source may have under way.
type window struct {
	mu     sync.Mutex
	cond   *sync.Cond
	limit  int
	out    int
	closed bool
}

func newWindow(limit int) *window {
	w := &window{limit: limit}
	w.cond = sync.NewCond(&w.mu)
	return w
}

// take waits until less than the limit is under way, then adds n. It is false once the window is closed.
func (w *window) take(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.out >= w.limit && !w.closed {
		w.cond.Wait()
	}
	w.out += n
	return !w.closed
}

func (w *window) give(n int) {
	if n == 0 {
		return
	}
	w.mu.Lock()
	w.out -= n
	w.cond.Broadcast()
	w.mu.Unlock()
}

func (w *window) close() {
	w.mu.Lock()
	w.closed = true
	w.cond.Broadcast()
	w.mu.Unlock()
}
