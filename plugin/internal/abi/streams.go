package abi

import (
	"time"

	"github.com/callonce/callonce/plugin/internal/guard"
)

// stream is one request as the proxy knows it. It is the guard's host.
type stream struct {
	id       uint32 // of its context
	plugin   *plugin
	guard    *guard.Stream
	buffered int         // bytes of the body held so far
	head     []byte      // the request's headers, as the proxy gave them
	heads    int         // what of them counts as headsHeld
	lines    [][2]string // the same, read
	next     *stream     // of its chain, or of the spare ones
}

// spareBytes is the longest buffer for headers that a stream keeps once they are not
// needed any more.
const spareBytes = 4 << 10

// headsBuffered is the memory in this VM that the headers of requests take that wait, in
// bytes. A client chooses how many of its requests wait, and how long their headers are
// (to 60 KiB, in Envoy's default): 20,000 of them would end the VM.
var headsBuffered int

// holdHead counts the headers in, and letHeadGo out again.
func (s *stream) bufferHead() {
	headsBuffered += cap(s.head) - s.heads
	s.heads = cap(s.head)
}

func (s *stream) releaseHead() {
	headsBuffered -= s.heads
	s.heads = 0
	if cap(s.head) > spareBytes {
		s.head, s.lines = nil, nil
	}
}

// plugin is one configuration.
type plugin struct {
	id    uint32 // of its context
	guard *guard.Guard
	host  func(*stream) guard.Host // what the guard sees of a stream
	waker waker
	// period is that of ticks after the first one; 0 = set already.
	period time.Duration
	spare  *stream // streams that are over, to be used again
	kept   int     // their number
}

// spareStreams is how many streams that are over a plugin keeps.
const spareStreams = 128

// begin gives a stream, a used one where there is one.
func (p *plugin) begin(id uint32) *stream {
	s := p.spare
	if s == nil {
		s = &stream{id: id, plugin: p}
		s.guard = p.guard.NewStream(id, p.host(s))
		return s
	}
	p.spare, s.next = s.next, nil
	p.kept--
	s.id, s.buffered = id, 0
	s.guard.Reuse(id)
	return s
}

// end takes back a stream that nobody will ask for again.
func (p *plugin) end(s *stream) {
	s.releaseHead()
	if p.kept == spareStreams {
		return
	}
	s.next, p.spare = p.spare, s
	p.kept++
}

// waker wakes its own plugin context through a shared queue. A queue belongs to the
// VM that registered its name last, so every context has a name of its own, drawn by
// chance; it is registered when it is first needed, which in most lives is once.
type waker struct {
	queue uint32
	ready bool
}

// streams finds the open ones by the id of their context. Ids are counted up, so that
// their low bits spread them evenly.
type streams struct {
	chains []*stream
	open   int
}

const fewestChains = 64

func (t *streams) chain(id uint32) **stream { return &t.chains[int(id)&(len(t.chains)-1)] }

// get gives the stream of an id, nil where there is none.
func (t *streams) get(id uint32) *stream {
	if t.open == 0 {
		return nil
	}
	s := *t.chain(id)
	for s != nil && s.id != id {
		s = s.next
	}
	return s
}

// add takes a stream whose id is not there yet.
func (t *streams) add(s *stream) {
	if t.open >= len(t.chains) {
		t.grow()
	}
	c := t.chain(s.id)
	s.next, *c = *c, s
	t.open++
}

func (t *streams) grow() {
	old := t.chains
	t.chains = make([]*stream, max(2*len(old), fewestChains))
	for _, s := range old {
		for s != nil {
			next, c := s.next, t.chain(s.id)
			s.next, *c = *c, s
			s = next
		}
	}
}

// remove forgets the stream of an id and gives it; nil where there is none.
func (t *streams) remove(id uint32) *stream {
	if t.open == 0 {
		return nil
	}
	c := t.chain(id)
	for *c != nil && (*c).id != id {
		c = &(*c).next
	}
	s := *c
	if s != nil {
		*c, s.next = s.next, nil
		t.open--
	}
	return s
}
