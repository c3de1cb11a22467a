package shared

import (
	"strconv"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/quota"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
)

// Only a scope that has calls in flight can set a mark. Where a record of marks is full the scope with most marks
// in it loses its oldest: one that floods the table pushes out its own.

// marksKeys is the number of records of marks.
const marksKeys = 64

// victim is the index of the mark in whose place another one comes.
func victim(m record.Marks) int {
	worst, most, oldest := 0, 0, ledger.Mono(0)
	for i := range m.Len() {
		w, n := m.At(i), 0
		for j := range m.Len() {
			if m.At(j).Scope == w.Scope {
				n++
			}
		}
		if n > most || n == most && w.At < oldest {
			worst, most, oldest = i, n, w.At
		}
	}
	return worst
}

// indexFor is where the mark of a call is to be written.
func indexFor(m record.Marks, scope, call uint64) int {
	switch i := m.Find(scope, call); {
	case i >= 0:
		return i
	case m.Len() < record.MostMarks:
		return m.Len()
	}
	return victim(m)
}

// Cancel implements ledger.Marks.
func (s *Shared) Cancel(c ledger.Cancellation) {
	if !s.runsAny(&c) {
		return
	}
	key, call := s.markOf(&c)
	for range record.MaxTries {
		m, cas, ok := s.readMarks(key)
		if !ok {
			return
		}
		i := indexFor(m, c.Scope, call)
		s.buf = record.Marks(append(s.buf[:0], m...)).Put(i, record.Mark{Scope: c.Scope, Call: call, At: s.env.Now()})
		if done, err := s.table.Set(key, s.buf, cas); done || err != nil {
			return
		}
	}
}

// Cancelled implements ledger.Marks.
func (s *Shared) Cancelled(c ledger.Cancellation, claimed ledger.Mono) bool {
	key, call := s.markOf(&c)
	m, _, ok := s.readMarks(key)
	if !ok {
		return true
	}
	i := m.Find(c.Scope, call)
	return i >= 0 && m.At(i).At >= claimed
}

// Runs implements ledger.Marks.
func (s *Shared) Runs(policy uint64) bool {
	return s.quota.Runs(quota.RowsOf(policy, 0, 0)[quota.Policy])
}

// runsAny reports whether the scope has a call in flight under some policy.
func (s *Shared) runsAny(c *ledger.Cancellation) bool {
	for _, policy := range s.env.Policies {
		if s.quota.Runs(quota.RowsOf(policy, 0, c.Scope)[quota.Scope]) {
			return true
		}
	}
	return false
}

// markOf gives the record that a call's mark lies in, and what names the call in it.
func (s *Shared) markOf(c *ledger.Cancellation) (key string, call uint64) {
	call = record.DigestOf3(s.salt, c.Scope, c.Session, c.Request)
	return s.prefix + "x/" + strconv.Itoa(int(record.Mix(call)%marksKeys)), call
}

func validMarks(b []byte) bool { return record.Marks(b).Valid() }

func (s *Shared) readMarks(key string) (m record.Marks, cas uint32, ok bool) {
	v, cas, st := s.table.Read(key, validMarks)
	return v, cas, st.OK()
}
