package hostsim

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/callonce/callonce/hostsim/internal/header"
)

// httpClient is the downstream side of a stream: the loop queues what to write, the handler's goroutine writes it.
type httpClient struct {
	http1 bool
	head  bool
	mu    sync.Mutex
	queue []func(*httpWriter)
	wake  chan struct{}
	gone  bool
}

func newHTTPClient(r *http.Request) *httpClient {
	return &httpClient{http1: r.ProtoMajor == 1, head: r.Method == "HEAD", wake: make(chan struct{}, 1)}
}

// httpWriter is the state of writing one response.
type httpWriter struct {
	w     http.ResponseWriter
	http1 bool
	head  bool // the request is a HEAD
	known bool // the response's length is in its headers
	err   error
	ended bool
	cut   bool
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

func (c *httpClient) headers(h *header.Map, end, keep bool) {
	lines := slices.Clone(h.Lines)
	c.push(func(w *httpWriter) { w.headers(lines, end, keep) })
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

func (c *httpClient) trailers(t *header.Map) {
	lines := slices.Clone(t.Lines)
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

func (w *httpWriter) headers(lines []Header, end, keep bool) {
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
	if w.http1 && !keep {
		h.Set("Connection", "close")
	}
	if end && !w.head && status != http.StatusNoContent && status != http.StatusNotModified && h.Get("Content-Length") == "" {
		h.Set("Content-Length", "0") // else flushing makes the server choose chunks
	}
	w.known = h.Get("Content-Length") != ""
	w.w.WriteHeader(status)
	w.ended = end
}

// ending is how the writing of a response came to its end.
type ending uint8

const (
	ended   ending = iota
	endedBy        // as its content-length says: the client needs nothing more
	cutOff
)

// write carries out what the loop queues until the response ends, the client leaves or the host closes.
func (c *httpClient) write(ctx context.Context, rw http.ResponseWriter, control *http.ResponseController, closed <-chan struct{}, gone, surplus func()) ending {
	w := &httpWriter{w: rw, http1: c.http1, head: c.head}
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
			control.Flush() // what came before the cut reaches the client
			return cutOff
		case errors.Is(w.err, http.ErrContentLength):
			control.Flush()
			surplus()
			return cutOff
		case w.err != nil:
			gone()
			return cutOff
		case w.ended && w.known:
			control.Flush()
			return endedBy
		case w.ended:
			control.Flush()
			return ended
		case len(queue) > 0:
			control.Flush()
			continue
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			gone()
			return cutOff
		case <-closed:
			return cutOff
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
