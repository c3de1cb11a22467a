package ledger

import "strconv"

// Cancellation names a call that its client gave up, as far as a notification can: by
// digests, which mean nothing to another process.
type Cancellation struct {
	Scope   uint64 // as the Claim has it
	Session uint64 // 0 = none
	Request uint64 // digest of the JSON-RPC id
}

// Marks remembers which calls were cancelled, for all workers of a process.
type Marks interface {
	// Runs reports whether a policy may have a call in flight, in whatever worker. It costs
	// one look into the table.
	Runs(policy string) bool
	// Cancel marks a call, if its scope has any in flight. Call it before the server is
	// told.
	Cancel(Cancellation)
	// Cancelled reports whether a call that was claimed at a time was cancelled since. Where
	// the table cannot tell, it may have been.
	Cancelled(c Cancellation, claimed Mono) bool
}

var _ Marks = (*Shared)(nil)

// Marks lie in a fixed number of records, each with the marks of some calls. Only a scope
// that has calls in flight can set one. Where a record is full the scope with most marks
// in it loses its oldest: one that floods the table pushes out its own.
//
//	marks  magic 'c' 'x', format, 0 | scope u64, call u64, at i64 | …
const (
	marksFormat  = 1
	marksHeader  = 4
	markSize     = 24
	marksKeys    = 64
	marksPerKey  = 32
	offMarkCall  = 8
	offMarkSetAt = 16
)

type marks []byte

func (m marks) valid() bool {
	return len(m) >= marksHeader && m[0] == 'c' && m[1] == 'x' && m[2] == marksFormat &&
		(len(m)-marksHeader)%markSize == 0 && len(m) <= marksHeader+marksPerKey*markSize
}

func (m marks) len() int { return max(len(m)-marksHeader, 0) / markSize }

func (m marks) at(i int) []byte { return m[marksHeader+i*markSize:][:markSize] }

// find gives the place of a call's mark, -1 for none.
func (m marks) find(scope, call uint64) int {
	for i := range m.len() {
		if w := m.at(i); le.Uint64(w[offMarkCall:]) == call && le.Uint64(w) == scope {
			return i
		}
	}
	return -1
}

// victim is the mark that another one takes the place of.
func (m marks) victim() int {
	worst, most, oldest := 0, 0, Mono(0)
	for i := range m.len() {
		scope, n := le.Uint64(m.at(i)), 0
		for j := range m.len() {
			if le.Uint64(m.at(j)) == scope {
				n++
			}
		}
		at := Mono(le.Uint64(m.at(i)[offMarkSetAt:]))
		if n > most || n == most && at < oldest {
			worst, most, oldest = i, n, at
		}
	}
	return worst
}

// Cancel implements Marks.
func (s *Shared) Cancel(c Cancellation) {
	if !s.runsAny(&c) {
		return
	}
	key, call := s.markOf(&c)
	for range maxTries {
		m, cas, ok := s.readMarks(key)
		if !ok {
			return
		}
		s.buf = append(s.buf[:0], m...)
		if len(s.buf) == 0 {
			s.buf = append(s.buf, 'c', 'x', marksFormat, 0)
		}
		w := marks(s.buf)
		i := w.find(c.Scope, call)
		switch {
		case i >= 0:
		case w.len() < marksPerKey:
			i = w.len()
			s.buf = append(s.buf, make([]byte, markSize)...)
			w = s.buf
		default:
			i = w.victim()
		}
		now := s.now()
		le.PutUint64(w.at(i), c.Scope)
		le.PutUint64(w.at(i)[offMarkCall:], call)
		le.PutUint64(w.at(i)[offMarkSetAt:], uint64(now))
		if done, err := s.table.Set(key, s.buf, cas); done || err != nil {
			return
		}
	}
}

// Cancelled implements Marks.
func (s *Shared) Cancelled(c Cancellation, claimed Mono) bool {
	key, call := s.markOf(&c)
	m, _, ok := s.readMarks(key)
	if !ok {
		return true
	}
	i := m.find(c.Scope, call)
	return i >= 0 && Mono(le.Uint64(m.at(i)[offMarkSetAt:])) >= claimed
}

// Runs implements Marks.
func (s *Shared) Runs(policy string) bool {
	return s.rowRuns(rowsOf(s.policies.digest(policy), 0, 0)[atPolicy])
}

// rowRuns reports whether a row counts calls in flight: it never says less than there are.
func (s *Shared) rowRuns(row uint64) bool {
	p, _, ok := s.readPage(s.pageOf(row))
	if !ok {
		return true
	}
	at := findRow(p.rows(), row)
	return at >= 0 && countsAt(p.rows()[at+offMain:]).inFlight > 0
}

// runsAny reports whether the scope has a call in flight under some policy.
func (s *Shared) runsAny(c *Cancellation) bool {
	for _, policy := range s.policies.digests {
		if s.rowRuns(rowsOf(policy, 0, c.Scope)[atScope]) {
			return true
		}
	}
	return false
}

// markOf gives the record that a call's mark lies in, and what names the call in it.
func (s *Shared) markOf(c *Cancellation) (key string, call uint64) {
	var text [24]byte
	le.PutUint64(text[:], c.Scope)
	le.PutUint64(text[8:], c.Session)
	le.PutUint64(text[16:], c.Request)
	call = s.Digest(text[:])
	return s.prefix + "x/" + strconv.Itoa(int(mix(call)%marksKeys)), call
}

func (s *Shared) readMarks(key string) (marks, uint32, bool) {
	v, cas, found, err := s.table.Get(key)
	switch {
	case err != nil:
		return nil, 0, false
	case !found:
		return nil, InsertIfAbsent, true
	case !marks(v).valid():
		s.foreign(key)
		return nil, 0, false
	}
	return v, cas, true
}
