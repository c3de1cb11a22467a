package hostsim

import (
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/callonce/callonce/hostsim/internal/downstream"
	"github.com/callonce/callonce/hostsim/internal/flow"
	"github.com/callonce/callonce/hostsim/internal/header"
	"github.com/callonce/callonce/hostsim/internal/http1"
)

// feeder reads a request's body into its stream.
type feeder struct {
	r        *http.Request
	window   *flow.Window
	trailers bool
	// fed is closed once nothing more is read.
	fed chan struct{}

	total int64
	ahead chan piece
	kept  *piece // read, but not yet used
}

type piece struct {
	b   []byte
	err error
}

// lookAhead is how long something that Envoy would find in the same read is waited for: the body that comes with the headers, and the end
// that comes with the last piece. net/http tells of each separately.
const lookAhead = 2 * time.Millisecond

func newFeeder(r *http.Request, w *flow.Window, trailers bool) *feeder {
	f := &feeder{r: r, window: w, trailers: trailers, fed: make(chan struct{}), ahead: make(chan piece, 1)}
	go f.read()
	return f
}

func (f *feeder) read() {
	buf := make([]byte, flow.BodyBuffer(f.r.ContentLength))
	for {
		n, err := f.r.Body.Read(buf)
		f.ahead <- piece{slices.Clone(buf[:n]), err}
		if err != nil {
			return
		}
	}
}

// early is what arrived together with the headers, as a step that may follow them at once, or nil. more says whether run has to read on.
func (f *feeder) early() (step func(*stream), more bool) {
	t := time.NewTimer(lookAhead)
	defer t.Stop()
	select {
	case p := <-f.ahead:
		return f.step(f.withEnd(p))
	case <-t.C:
		return nil, true
	}
}

// run reads what early has left.
func (f *feeder) run(post func(name string, f func(*stream))) {
	for {
		p := piece{}
		if f.kept != nil {
			p, f.kept = *f.kept, nil
		} else {
			p = <-f.ahead
		}
		step, more := f.step(f.withEnd(p))
		if step != nil {
			post("request body", step)
		}
		if !more {
			return
		}
	}
}

// step is what a piece means to the stream.
func (f *feeder) step(p piece) (step func(*stream), more bool) {
	if p.err != nil {
		close(f.fed)
	}
	if len(p.b) > 0 && !f.window.Take(len(p.b)) && p.err == nil {
		return nil, true // the stream is over: the rest is read for the client's sake only
	}
	switch {
	case p.err == io.EOF:
		return f.last(p.b), false
	case downstream.Malformed(f.r):
		return func(s *stream) {
			if len(p.b) > 0 {
				s.onRequestData(p.b, false)
			}
			s.localReply(refusalReply(http1.CodecError(http.StatusBadRequest)))
		}, false
	case p.err != nil:
		return (*stream).clientGone, false
	}
	return func(s *stream) { s.onRequestData(p.b, false) }, true
}

// last hands over the last bytes and the end, as one callback over HTTP/2 and as two over HTTP/1.
func (f *feeder) last(b []byte) func(*stream) {
	var t *header.Map
	if f.r.ProtoMajor == 2 || f.trailers {
		if m := header.FromHTTP(f.r.Trailer); len(m.Lines) > 0 {
			t = m
		}
	}
	together := f.r.ProtoMajor == 2 && t == nil && len(b) > 0
	return func(s *stream) {
		if len(b) > 0 {
			s.onRequestData(b, together)
		}
		switch {
		case t != nil:
			s.request.onTrailers(t)
		case !together:
			s.onRequestData(nil, true)
		}
	}
}

// withEnd adds the end to a piece if it follows at once.
func (f *feeder) withEnd(p piece) piece {
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
		if len(q.b) == 0 && q.err == io.EOF {
			p.err = io.EOF
		} else {
			f.kept = &q
		}
	case <-patience:
	}
	return p
}
