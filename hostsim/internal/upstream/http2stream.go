package upstream

//lint:file-ignore SA1019 net/http offers no connection on which a caller decides when streams begin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/callonce/callonce/hostsim/internal/flow"
	"github.com/callonce/callonce/hostsim/internal/header"
	"golang.org/x/net/http2"
)

// HTTP2Streams is the HTTP/2 client side of a proxy, unencrypted: unlike a callout's, its requests go out as they come, and its
// responses wait where nobody takes them.
type HTTP2Streams struct {
	*HTTP2Pool
	window int
}

// NewHTTP2Streams returns them for a server; window is how many bytes of a response may be under way.
func NewHTTP2Streams(u *url.URL, dialTimeout time.Duration, window int) *HTTP2Streams {
	return &HTTP2Streams{NewHTTP2Pool(u, dialTimeout, 0), window}
}

// http2Stream is one request and its response. It is the body of its request, which the connection reads as far as the server lets it.
type http2Stream struct {
	pool   *HTTP2Streams
	events Events
	head   *header.Map
	tail   http.Header // the trailers that the request declares, filled in before the end of its body
	ctx    context.Context
	stop   context.CancelFunc
	window *flow.Window

	mu     sync.Mutex
	more   *sync.Cond
	pieces []sentChunk
	taken  bool // nothing of the request is wanted any more
}

// Dial implements Dialer.
func (p *HTTP2Streams) Dial(h *header.Map, end bool, events Events) Exchange {
	x := &http2Stream{pool: p, events: events, head: h, window: flow.NewWindow(p.window), taken: end}
	x.more = sync.NewCond(&x.mu)
	x.ctx, x.stop = context.WithCancel(context.Background())
	req := x.request(end)
	go x.run(req)
	return x
}

// request is the head as the connection wants it.
func (x *http2Stream) request(end bool) *http.Request {
	req := &http.Request{Method: x.head.Value(":method"), Host: x.head.Value(":authority"), Header: http.Header{"User-Agent": nil}, ContentLength: -1,
		URL: &url.URL{Scheme: "http", Host: x.pool.address, Opaque: x.head.Value(":path")}}
	for _, l := range x.head.Lines {
		switch {
		case strings.HasPrefix(l.Name, ":"), l.Name == "content-length":
		case l.Name == "trailer" && !end:
			x.declare(l.Value)
		default:
			req.Header.Add(l.Name, l.Value)
		}
	}
	if end {
		req.ContentLength = 0
		return req
	}
	if n, err := strconv.ParseInt(x.head.Value("content-length"), 10, 64); err == nil && n >= 0 {
		req.ContentLength = n
	}
	req.Body, req.Trailer = x, x.tail
	return req
}

// declare notes the trailers that a request says will come. The package sends no others.
func (x *http2Stream) declare(names string) {
	if x.tail == nil {
		x.tail = http.Header{}
	}
	for name := range strings.SplitSeq(names, ",") {
		x.tail[http.CanonicalHeaderKey(strings.TrimSpace(name))] = nil
	}
}

// Send implements Exchange.
func (x *http2Stream) Send(b []byte, end bool, sent func()) {
	x.mu.Lock()
	taken := x.taken
	if !taken {
		x.pieces = append(x.pieces, sentChunk{b, sent, end})
		x.more.Signal()
	}
	x.mu.Unlock()
	if taken {
		sent()
	}
}

// SendTrailers implements Exchange. Those that the request has not declared are left out.
func (x *http2Stream) SendTrailers(t *header.Map) {
	x.mu.Lock()
	for _, l := range t.Lines {
		name := http.CanonicalHeaderKey(l.Name)
		if _, declared := x.tail[name]; declared {
			x.tail[name] = append(x.tail[name], l.Value)
		}
	}
	x.mu.Unlock()
	x.Send(nil, true, func() {})
}

// Read gives the connection the next of the body.
func (x *http2Stream) Read(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.pieces) == 0 && !x.taken {
		x.more.Wait()
	}
	if x.taken {
		return 0, io.EOF
	}
	p := &x.pieces[0]
	n := copy(b, p.b)
	if p.b = p.b[n:]; len(p.b) > 0 {
		return n, nil
	}
	go p.sent()
	if p.ending {
		x.taken = true
		return n, io.EOF
	}
	x.pieces = x.pieces[1:]
	return n, nil
}

// Close says that nothing more of the request is wanted.
func (x *http2Stream) Close() error {
	x.mu.Lock()
	pieces := x.pieces
	if x.taken {
		pieces = nil // the last of them has been told already
	}
	x.pieces, x.taken = nil, true
	x.more.Signal()
	x.mu.Unlock()
	for _, p := range pieces {
		p.sent()
	}
	return nil
}

// Give implements Exchange.
func (x *http2Stream) Give(n int) { x.window.Give(n) }

// Cancel implements Exchange.
func (x *http2Stream) Cancel() {
	x.stop()
	x.window.Close()
	x.Close()
}

func (x *http2Stream) run(req *http.Request) {
	defer x.Cancel()
	conn, err := x.pool.connect(x.ctx)
	if err != nil {
		x.reset(connectionFailure(err))
		return
	}
	resp, err := conn.RoundTrip(req.WithContext(x.ctx))
	if err != nil {
		x.reset(http2StreamReset(err))
		return
	}
	defer resp.Body.Close()
	h := headOf(resp)
	if resp.ContentLength == 0 || req.Method == http.MethodHead || resp.StatusCode == http.StatusNotModified {
		x.events.Headers(h, true)
		return
	}
	x.events.Headers(h, false)
	buf := make([]byte, flow.ReadSize)
	var last []byte // all that the length says has come: the end is in its frame mostly, and told with it
	for left := resp.ContentLength; ; {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if !x.window.Take(n) {
				return
			}
			if left -= int64(n); left == 0 && resp.ContentLength > 0 {
				last = slices.Clone(buf[:n])
			} else {
				x.events.Data(slices.Clone(buf[:n]), false)
			}
		}
		if last != nil && err != nil && (err != io.EOF || len(resp.Trailer) > 0) {
			x.events.Data(last, false)
		}
		switch {
		case err == nil:
		case err == io.EOF && len(resp.Trailer) > 0:
			x.events.Trailers(headersOf(resp.Trailer))
			return
		case err == io.EOF:
			x.events.Data(last, true)
			return
		default:
			x.reset(http2StreamReset(err))
			return
		}
	}
}

func (x *http2Stream) reset(r Reset) {
	if x.ctx.Err() == nil {
		x.events.Reset(r)
	}
}

// http2StreamReset is http2Reset, but that a stream which the server had not begun is told apart.
func http2StreamReset(err error) Reset {
	r := http2Reset(err)
	if e, ok := errors.AsType[http2.StreamError](err); ok && e.Code == http2.ErrCodeRefusedStream {
		r.name = "remote_refused_stream_reset"
	}
	return r
}
