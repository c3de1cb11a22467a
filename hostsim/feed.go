package hostsim

import (
	"io"
	"net/http"
	"slices"
	"time"
)

// feeder reads a request's body into its stream.
type feeder struct {
	r        *http.Request
	window   *window
	trailers bool
	// fed is closed once nothing more is read.
	fed  chan struct{}
	post func(name string, f func(*stream))

	buf   []byte
	total int64
	ahead chan piece // of a reader that runs ahead, if there is one
	kept  *piece     // read, but not yet used
}

type piece struct {
	b   []byte
	err error
}

// lookAhead is how long the end of an HTTP/2 request is waited for after a piece of its body. Clients send both in one frame, of which
// Envoy makes one callback; net/http tells of them separately.
const lookAhead = 2 * time.Millisecond

func (f *feeder) run() {
	for {
		p := f.next()
		if p.err != nil {
			close(f.fed)
		}
		if len(p.b) > 0 && !f.window.take(len(p.b)) && p.err == nil {
			continue // the stream is over: the rest is read for the client's sake only
		}
		switch {
		case p.err == io.EOF:
			f.end(p.b)
			return
		case p.err != nil:
			f.post("client gone", (*stream).clientGone)
			return
		}
		f.post("request body", func(s *stream) { s.onRequestData(p.b, false) })
	}
}

// end hands over the last bytes and the end, as one step over HTTP/2 and as two over HTTP/1.
func (f *feeder) end(b []byte) {
	var t *headerMap
	if f.r.ProtoMajor == 2 || f.trailers {
		if m := fromHTTP(f.r.Trailer); len(m.lines) > 0 {
			t = m
		}
	}
	together := f.r.ProtoMajor == 2 && t == nil && len(b) > 0
	if len(b) > 0 {
		f.post("request body", func(s *stream) { s.onRequestData(b, together) })
	}
	switch {
	case t != nil:
		f.post("request trailers", func(s *stream) { s.request.onTrailers(t) })
	case !together:
		f.post("request body", func(s *stream) { s.onRequestData(nil, true) })
	}
}

// next is the next piece; over HTTP/2 it carries the end too, where that follows at once.
func (f *feeder) next() piece {
	if f.kept != nil {
		p := *f.kept
		f.kept = nil
		return p
	}
	if f.r.ProtoMajor != 2 {
		return f.read()
	}
	if f.ahead == nil {
		f.ahead = make(chan piece, 1)
		go f.readAhead()
	}
	p := <-f.ahead
	f.total += int64(len(p.b))
	if p.err != nil || len(p.b) == 0 {
		return p
	}
	var patience <-chan time.Time
	if f.total != f.r.ContentLength { // else the end is all that can follow
		t := time.NewTimer(lookAhead)
		defer t.Stop()
		patience = t.C
	}
	select {
	case q := <-f.ahead:
		f.total += int64(len(q.b))
		if len(q.b) == 0 && q.err == io.EOF {
			p.err = io.EOF
		} else {
			f.kept = &q
		}
	case <-patience:
	}
	return p
}

func (f *feeder) read() piece {
	if f.buf == nil {
		f.buf = make([]byte, bodyBuffer(f.r.ContentLength))
	}
	n, err := f.r.Body.Read(f.buf)
	return piece{slices.Clone(f.buf[:n]), err}
}

// bodyBuffer is the size for reading a body of a length that may be unknown (-1): short ones, which are most, cost no more than they need.
func bodyBuffer(length int64) int64 {
	if length >= 0 && length < readSize {
		return length + 1
	}
	return readSize
}

func (f *feeder) readAhead() {
	for {
		p := f.read()
		f.ahead <- p
		if p.err != nil {
			return
		}
	}
}
