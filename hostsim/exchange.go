package hostsim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// exchangeEvents are called in order, from goroutines of the exchange. Nothing follows an end or a reset.
type exchangeEvents struct {
	headers  func(h *headerMap, end bool)
	data     func(b []byte, end bool)
	trailers func(t *headerMap)
	reset    func(r resetReason)
	// whole is headers, data and trailers in one step, where the receiver takes them so; else nil.
	whole func(h *headerMap, b []byte, t *headerMap)
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
	// flushedAll is closed once all has been written, or could not be.
	flushedAll chan struct{}
	over       bool // an end, a reset or a cancellation has happened
	conn       *upstreamConn
}

type sentChunk struct {
	b      []byte
	sent   func()
	ending bool
}

// open begins an exchange; the body follows by send, unless end is true.
func (p *upstreamPool) open(h *headerMap, end bool, events exchangeEvents) *exchange {
	x := &exchange{pool: p, events: events, method: h.value(":method"), noBody: end, ended: end, wake: make(chan struct{}, 1), flushedAll: make(chan struct{}), window: newWindow(p.window)}
	x.head, x.chunked = formatRequest(h, end)
	x.ctx, x.stop = context.WithCancel(context.Background())
	go x.run()
	return x
}

// formatRequest writes the request head as it stands. The body's framing follows the content-length header, right or wrong.
func formatRequest(h *headerMap, end bool) (head []byte, chunked bool) {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nhost: %s\r\n", oneLine(h.value(":method")), oneLine(h.value(":path")), oneLine(h.value(":authority")))
	for _, l := range h.lines {
		if strings.HasPrefix(l.Name, ":") || l.Name == "host" || l.Name == "transfer-encoding" {
			continue
		}
		b = fmt.Appendf(b, "%s: %s\r\n", oneLine(l.Name), oneLine(l.Value))
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

// oneLine keeps a module's mistake from becoming a second request.
func oneLine(s string) string {
	if !strings.ContainsAny(s, "\r\n\x00") {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' || r == 0 {
			return ' '
		}
		return r
	}, s)
}

func (p *upstreamPool) dial(h *headerMap, end bool, events exchangeEvents) outgoing {
	return p.open(h, end, events)
}

func (p *upstreamPool) target() string { return p.address }

func (x *exchange) give(n int) { x.window.give(n) }

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
				fmt.Fprintf(c.w, "%s: %s\r\n", oneLine(l.Name), oneLine(l.Value))
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
	close(x.flushedAll)
}
