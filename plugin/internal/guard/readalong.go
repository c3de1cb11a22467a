package guard

import (
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// ResponseBody is called with each chunk as it passes.
func (s *Stream) ResponseBody(size int, end bool) (a Action) {
	defer s.contain(answerPasses, &a)
	if s.listing != nil {
		s.readListing(size, end)
	}
	if s.stage == advertised {
		return s.passAdvert(size, end)
	}
	if s.stage != forwarded {
		return Continue
	}
	r := &s.reply
	r.got += size
	r.ended = r.ended || end || r.expect >= 0 && r.got >= r.expect
	if size > 0 && s.wants() {
		chunk, err := s.host.ResponseBody(size)
		if err != nil || len(chunk) != size {
			s.settle(ledger.Outcome{Event: ledger.MarkUnknown}, byProxyFault)
			return Continue
		}
		if s.readChunk(chunk); r.settled && !r.events.Open() {
			r.releaseMemory()
		}
	}
	if r.ended {
		s.atEnd()
	}
	return Continue
}

// ResponseTrailers ends an answer whose body callback never said so.
func (s *Stream) ResponseTrailers() (a Action) {
	defer s.contain(answerPasses, &a)
	if s.listing != nil {
		s.endListing()
	}
	switch s.stage {
	case advertised:
		s.endAdvert()
	case forwarded:
		s.reply.ended = true
		s.atEnd()
	}
	return Continue
}

// wants reports whether the bytes that pass are still looked at: until the key is
// settled, and after that for whether an event that is too long ends, and whether more
// follows a completed JSON body of unknown length.
func (s *Stream) wants() bool {
	r := &s.reply
	return r.form == asEvents && (!r.settled || r.events.Open()) || r.form == asJSON && (!r.settled || r.event == ledger.Complete)
}

func (s *Stream) readChunk(chunk []byte) {
	r := &s.reply
	if r.form == asEvents {
		r.events.Feed(chunk, s.readEvent)
		return
	}
	if r.settled || r.freed != notFreed {
		if r.expect >= 0 {
			return
		}
		if r.value.Feed(chunk); r.value.Trailed {
			s.takeBack()
		}
		return
	}
	whole := r.ended || r.expect >= 0 && r.got >= r.expect
	if r.expect < 0 && !whole {
		if r.got == len(chunk) && s.judgeFirst(chunk) {
			return
		}
		r.value.Feed(chunk)
		whole = r.value.Done
	}
	if whole && r.body.Len() == 0 && len(chunk) <= r.cap {
		s.judgeBody(chunk)
		return
	}
	switch r.body.Add(chunk); {
	case r.body.Over:
		s.readBeginning(r.body.Bytes())
		if r.body = (mcp.Text{}); !r.settled && r.freed == notFreed {
			s.settle(ledger.Outcome{Event: ledger.MarkUnknown}, byOverCap)
		}
	case whole:
		s.judgeBody(r.body.Bytes())
	}
}

// readEvent looks at one event of a stream, or at the beginning of one that is too long;
// true ends the reading.
func (s *Stream) readEvent(data []byte) bool {
	defer s.g.response.Release()
	switch {
	case s.reply.settled:
		return true
	case s.reply.events.Cut:
		s.readBeginning(data)
		return false
	}
	data = mcp.Trim(data)
	switch a := s.g.response.Read(data, s.call.id); a {
	case mcp.NotOurs:
		return false
	case mcp.Malformed:
		s.reply.odd = max(s.reply.odd, perhapsOurs)
		if s.g.response.Ours {
			s.reply.odd = surelyOurs
		}
		return false
	default:
		s.complete(a, data)
		return s.reply.settled
	}
}

// readBeginning looks at the beginning of a message that is too long to be kept. What the
// rest holds changes nothing for a response: no repeat will ever get it.
func (s *Stream) readBeginning(data []byte) {
	defer s.g.response.Release()
	switch a := s.g.response.Begins(data, s.call.id); {
	case a == mcp.NotOurs:
	case a == mcp.Malformed:
		s.reply.odd = max(s.reply.odd, perhapsOurs)
	case a == mcp.Cancelled:
		s.settle(ledger.Outcome{Event: ledger.MarkUnknown}, byCancelled)
	case a == mcp.Unnamed, a == mcp.InputRequired, s.released(a):
		s.frees(a)
	default:
		s.settleNoResult(ledger.MarkNotReplayable, byOverCap)
	}
}

// judgeBody reads a whole JSON body. What comes after it is a part of no JSON text.
func (s *Stream) judgeBody(body []byte) {
	defer s.g.response.Release()
	s.reply.body, s.reply.value.Done = mcp.Text{}, true
	body = mcp.Trim(body)
	s.complete(s.g.response.Read(body, s.call.id), body)
}

// judgeFirst judges the first chunk of a JSON body of unknown length where it is the whole body already, as most are. One
// that can be read is whole; whether one that cannot is must be found out byte by byte.
func (s *Stream) judgeFirst(chunk []byte) (whole bool) {
	message := mcp.Trim(chunk)
	last := len(message) - 1
	if last < 0 || message[last] != '}' && message[last] != ']' || len(chunk) > s.reply.cap {
		return false
	}
	defer s.g.response.Release()
	a := s.g.response.Read(message, s.call.id)
	if a == mcp.Malformed {
		return false
	}
	s.reply.value.Done = true
	s.complete(a, message)
	return true
}

// releaseMemory lets go of what was kept of the answer. What is still read of it needs nothing.
func (r *readAlong) releaseMemory() {
	r.body, r.events = mcp.Text{}, mcp.Events{Cap: r.cap}
}
