package hostsim

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// httpClient is the downstream side of a stream: the loop queues what to write, the handler's goroutine writes it.
type httpClient struct {
	http1 bool
	mu    sync.Mutex
	queue []func(*httpWriter)
	wake  chan struct{}
	gone  bool
}

func newHTTPClient(r *http.Request) *httpClient {
	return &httpClient{http1: r.ProtoMajor == 1, wake: make(chan struct{}, 1)}
}

// httpWriter is the state of writing one response.
type httpWriter struct {
	w      http.ResponseWriter
	unread func() bool // the request's body is still arriving
	http1  bool
	err    error
	ended  bool
	cut    bool
}

func (c *httpClient) push(f func(*httpWriter)) {
	c.mu.Lock()
	gone := c.gone
	if !gone {
		c.queue = append(c.queue, f)
	}
	c.mu.Unlock()
	if gone {
		f(&httpWriter{err: context.Canceled}) // only gives credit back
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *httpClient) headers(h *headerMap, end bool) {
	lines := slices.Clone(h.lines)
	c.push(func(w *httpWriter) { w.headers(lines, end) })
}

func (c *httpClient) send(b []byte, end bool, sent func()) {
	c.push(func(w *httpWriter) {
		if len(b) > 0 && w.err == nil {
			_, w.err = w.w.Write(b)
		}
		w.ended = w.ended || end
		sent()
	})
}

func (c *httpClient) trailers(t *headerMap) {
	lines := slices.Clone(t.lines)
	c.push(func(w *httpWriter) {
		if w.err == nil {
			for _, l := range lines {
				w.w.Header().Add(http.TrailerPrefix+l.Name, l.Value)
			}
		}
		w.ended = true
	})
}

func (c *httpClient) reset() { c.push(func(w *httpWriter) { w.cut = true }) }

func (w *httpWriter) headers(lines []Header, end bool) {
	if w.err != nil {
		return
	}
	status := http.StatusOK
	h := w.w.Header()
	for _, l := range lines {
		switch {
		case l.Name == ":status":
			if n, err := strconv.Atoi(l.Value); err == nil && n >= 200 && n <= 999 {
				status = n
			}
		case !slices.Contains(hopByHop, l.Name):
			h.Add(l.Name, l.Value)
		}
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // keeps the server from guessing one
	}
	if w.http1 && w.unread() {
		h.Set("Connection", "close")
	}
	w.w.WriteHeader(status)
	w.ended = end
}

// write carries out what the loop queues until the response ends. It says whether the response is to be cut.
func (c *httpClient) write(ctx context.Context, rw http.ResponseWriter, control *http.ResponseController, fed <-chan struct{}, gone func()) (cut bool) {
	w := &httpWriter{w: rw, http1: c.http1, unread: func() bool {
		select {
		case <-fed:
			return false
		default:
			return true
		}
	}}
	defer c.leave()
	for {
		c.mu.Lock()
		queue := c.queue
		c.queue = nil
		c.mu.Unlock()
		for _, f := range queue {
			f(w)
		}
		switch {
		case w.cut:
			return true
		case w.err != nil:
			gone()
			return true
		case w.ended:
			control.Flush()
			return false
		case len(queue) > 0:
			control.Flush()
			continue
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			gone()
			return true
		}
	}
}

// leave gives back the credit of everything that will not be written.
func (c *httpClient) leave() {
	c.mu.Lock()
	c.gone = true
	queue := c.queue
	c.queue = nil
	c.mu.Unlock()
	for _, f := range queue {
		f(&httpWriter{err: context.Canceled})
	}
}
