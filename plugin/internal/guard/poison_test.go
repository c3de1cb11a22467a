package guard

import "slices"

// lent is memory of the host that somebody has been given. All tests run with it: what is
// used for longer than Host says is not what it was.
type lent struct {
	bytes [][]byte
	lines [][][2]string
}

// poison is what is in lent memory once it is the host's again.
const poison = 0xDB

func (l *lent) lend(b []byte) []byte {
	b = slices.Clone(b)
	l.bytes = append(l.bytes, b)
	return b
}

func (l *lent) lendLines(lines [][2]string) [][2]string {
	out := make([][2]string, len(lines))
	for i, line := range lines {
		out[i] = [2]string{view(l.lend([]byte(line[0]))), view(l.lend([]byte(line[1])))}
	}
	l.lines = append(l.lines, out)
	return out
}

// poison takes the memory back.
func (l *lent) poison() {
	for _, b := range l.bytes {
		for i := range b {
			b[i] = poison
		}
	}
	for _, lines := range l.lines {
		for i := range lines {
			lines[i] = [2]string{"poison", "poison"}
		}
	}
	*l = lent{}
}

// driven is a stream whose host takes back what it lent when a callback returns.
type driven struct {
	*Stream
	x *exchange
}

func (x *exchange) drive(s *Stream) { x.stream = driven{s, x} }

// returned is the end of a callback. Headers are lent while the stream waits.
func (d driven) returned() {
	d.x.lent.poison()
	d.x.w.memory.lent.poison()
	if !d.Waits() {
		d.x.head.poison()
	}
}

func (d driven) RequestHeaders(end bool) Action {
	defer d.returned()
	return d.Stream.RequestHeaders(end)
}

func (d driven) RequestBody(size int, end bool) Action {
	defer d.returned()
	return d.Stream.RequestBody(size, end)
}

func (d driven) RequestTrailers(size int) Action {
	defer d.returned()
	return d.Stream.RequestTrailers(size)
}

func (d driven) ResponseHeaders(end bool) Action {
	defer d.returned()
	return d.Stream.ResponseHeaders(end)
}

func (d driven) ResponseBody(size int, end bool) Action {
	defer d.returned()
	return d.Stream.ResponseBody(size, end)
}

func (d driven) ResponseTrailers() Action {
	defer d.returned()
	return d.Stream.ResponseTrailers()
}

func (d driven) Ended() {
	defer d.returned()
	d.Stream.Ended()
}

func (d driven) Done() {
	defer d.returned()
	d.Stream.Done()
}
