package upstream

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/callonce/callonce/hostsim/internal/flow"
	"github.com/callonce/callonce/hostsim/internal/header"
	"github.com/callonce/callonce/hostsim/internal/http1"
)

// exchange is one request to the upstream and its response.
type exchange struct {
	pool    *Pool
	events  Events
	method  string
	head    []byte
	chunked bool
	noBody  bool
	ctx     context.Context
	stop    context.CancelFunc
	window  *flow.Window

	mu        sync.Mutex
	wake      chan struct{}
	chunks    []sentChunk
	tail      *header.Map // trailers
	ended     bool
	lastTaken bool // the writer has all of the request
	written   bool // all of the request has gone out
	// flushedAll is closed once all has been written, or could not be.
	flushedAll chan struct{}
	over       bool // an end, a reset or a cancellation has happened
	conn       *conn
}

type sentChunk struct {
	b      []byte
	sent   func()
	ending bool
}

// Dial implements Dialer.
func (p *Pool) Dial(h *header.Map, end bool, events Events) Exchange {
	x := &exchange{pool: p, events: events, method: h.Value(":method"), noBody: end, ended: end, lastTaken: end, wake: make(chan struct{}, 1), flushedAll: make(chan struct{}), window: flow.NewWindow(p.window)}
	x.head, x.chunked = http1.FormatRequestHead(h, end)
	x.ctx, x.stop = context.WithCancel(context.Background())
	go x.run()
	return x
}

// Target implements Dialer.
func (p *Pool) Target() string { return p.address }

func (x *exchange) Give(n int) { x.window.Give(n) }

// Send queues a piece of the body. sent is called once it needs no memory any more.
func (x *exchange) Send(b []byte, end bool, sent func()) {
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

func (x *exchange) SendTrailers(t *header.Map) {
	x.mu.Lock()
	x.tail = t
	x.mu.Unlock()
	x.Send(nil, true, func() {})
}

func (x *exchange) signal() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// Cancel ends the exchange; a connection that carried it is closed. No event follows.
func (x *exchange) Cancel() {
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
func (x *exchange) finish() (*conn, []sentChunk, bool) {
	x.mu.Lock()
	was, chunks := x.over, x.chunks
	x.over, x.chunks = true, nil
	c := x.conn
	x.mu.Unlock()
	x.stop()
	x.window.Close()
	return c, chunks, was
}

func (x *exchange) reset(r Reset) {
	c, chunks, was := x.finish()
	if c != nil {
		c.close()
	}
	for _, ch := range chunks {
		ch.sent()
	}
	if !was {
		x.events.Reset(r)
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
		x.lastTaken = slices.ContainsFunc(chunks, func(ch sentChunk) bool { return ch.ending })
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

func (x *exchange) writeChunk(c *conn, ch sentChunk, tail *header.Map) {
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
			for _, l := range tail.Lines {
				fmt.Fprintf(c.w, "%s: %s\r\n", http1.OneLine(l.Name), http1.OneLine(l.Value))
			}
		}
		c.w.WriteString("\r\n")
	}
}

func (x *exchange) flushed(c *conn) {
	err := c.w.Flush()
	x.mu.Lock()
	x.written = err == nil
	x.mu.Unlock()
	close(x.flushedAll)
}
