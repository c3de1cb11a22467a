package abi

import (
	"math/rand/v2"
	"testing"

	"github.com/callonce/callonce/plugin/internal/guard"
	"github.com/callonce/callonce/plugin/internal/policy"
)

type noMetrics struct{}

func (noMetrics) Counter(string) guard.Counter { return nil }
func (noMetrics) Gauge(string) guard.Gauge     { return nil }

// newPlugin is a plugin whose streams are begun and ended, and get no callback.
func newPlugin(t *testing.T) *plugin {
	t.Helper()
	c, mistakes := policy.Parse([]byte(`{"policies":{"p":{"server":"s","anonymous":true}},"default":"p"}`))
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	return &plugin{guard: guard.New(c, noMetrics{}, func(string) {}), host: func(*stream) guard.Host { return nil }}
}

// spares counts the streams that are kept.
func (p *plugin) spares() (n int) {
	for s := p.spare; s != nil; s = s.next {
		n++
	}
	return n
}

// A stream that is used again has nothing of the one before: a body of the old size would
// be asked for when trailers end a request that has none.
func TestStreamUsedAgain(t *testing.T) {
	p := newPlugin(t)
	s := p.begin(1)
	s.buffered = 700
	p.end(s)
	again := p.begin(2)
	if again != s {
		t.Fatal("a stream that is over was not used again")
	}
	if again.buffered != 0 || again.id != 2 || again.next != nil || again.heads != 0 {
		t.Errorf("of the stream before: held %d, id %d, next %v, heads %d", again.buffered, again.id, again.next, again.heads)
	}
	if other := p.begin(3); other == again {
		t.Error("one stream was given twice")
	}
}

// However many are over, few are kept, and each of them is given once.
func TestSparesAreBounded(t *testing.T) {
	p := newPlugin(t)
	for range 3 {
		var all []*stream
		seen := map[*stream]bool{}
		for id := range uint32(3 * spareStreams) {
			s := p.begin(id)
			if seen[s] {
				t.Fatal("one stream was given twice")
			}
			seen[s] = true
			all = append(all, s)
		}
		if p.spares() != 0 || p.kept != 0 {
			t.Fatalf("%d streams are kept, counted %d, while as many are wanted", p.spares(), p.kept)
		}
		for _, s := range all {
			p.end(s)
		}
		if n := p.spares(); n != spareStreams || p.kept != n {
			t.Fatalf("%d streams are kept, counted %d, expected %d", n, p.kept, spareStreams)
		}
	}
}

// A stream keeps no long headers once it does not wait, and then they do not count.
func TestSparesKeepNoLongHeaders(t *testing.T) {
	before := headsBuffered
	p := newPlugin(t)
	for _, c := range []struct{ size, kept int }{{100, 100}, {spareBytes, spareBytes}, {spareBytes + 1, 0}, {60_000, 0}} {
		s := p.begin(1)
		s.head, s.lines = make([]byte, c.size), make([][2]string, 5)
		s.bufferHead()
		if headsBuffered != before+c.size {
			t.Errorf("%d bytes wait, counted %d", c.size, headsBuffered-before)
		}
		s.bufferHead() // asked for again
		p.end(s)
		if headsBuffered != before {
			t.Errorf("none wait, counted %d bytes", headsBuffered-before)
		}
		if cap(s.head) != c.kept || (s.lines == nil) != (c.kept == 0) {
			t.Errorf("of %d bytes %d are kept, and %d lines", c.size, cap(s.head), cap(s.lines))
		}
		s = p.begin(2)
		s.head = nil
		p.end(s)
	}
}

// The table against a map, at ids as a proxy counts them and at others.
func TestStreamsAreFound(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var table streams
	want := map[uint32]*stream{}
	for i := range uint32(20_000) {
		id := i
		if i%3 == 0 {
			id = random.Uint32()
		}
		if want[id] == nil {
			s := &stream{id: id}
			table.add(s)
			want[id] = s
		}
		if i%2 == 0 && i < 15_000 {
			gone := random.Uint32N(i + 1)
			if s := table.remove(gone); s != want[gone] || s != nil && s.next != nil {
				t.Fatalf("%d: removed %v, expected %v", gone, s, want[gone])
			}
			delete(want, gone)
		}
		if look := random.Uint32N(i + 10); table.get(look) != want[look] {
			t.Fatalf("%d: found %v, expected %v", look, table.get(look), want[look])
		}
	}
	for id, s := range want {
		if table.get(id) != s || table.remove(id) != s || table.get(id) != nil {
			t.Fatalf("%d is not found, or is not gone", id)
		}
	}
	if table.open != 0 {
		t.Errorf("%d streams are open", table.open)
	}
}
