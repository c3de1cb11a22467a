package guard

import (
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// A client that abandons a call may say so in a notification, on another connection and
// to another worker, before it leaves. What the server then answers is no outcome: it may
// have stopped anywhere. So the cancellation is marked, before the server hears of it,
// and an answer that is no result counts as none where the mark is there.

// mostWatched is the longest body, in bytes, that is looked at while it passes.
const mostWatched = 8 << 10

// watch lets a request go on of which a policy needs nothing. Where calls of the policy
// are in flight, in whatever worker, it looks for a cancellation in the body while that
// passes: nothing is buffered. What the headers say must be taken now; once they have gone on
// they are out of reach.
func (s *Stream) watch(end bool) Action {
	if !end && s.g.marks.Runs(s.g.number(s.policy)) && s.mayCancel() {
		if scope, refusal, _ := s.scopeOf(); refusal == nil {
			mark := ledger.Cancellation{Scope: scope.scope, Session: sketch(s.call.session)}
			a := s.pass()
			s.stage, s.call.mark, s.call.session = watching, mark, ""
			return a
		}
	}
	return s.pass()
}

// mayCancel reports whether the headers are those of a message that can be read, under
// whatever type: servers read JSON under many.
func (s *Stream) mayCancel() bool {
	if s.head.lines == nil {
		lines, err := s.host.RequestHeaders()
		if err != nil {
			return false
		}
		s.head = readHead(lines, s.policy)
	}
	h := &s.head
	return h.isPost() && mcp.IsIdentity(h.encoding) && h.length <= mostWatched
}

// watchBody takes a part of such a body. The mark is set before the last byte of the
// notification has gone on.
func (s *Stream) watchBody(size int, end bool) Action {
	if size > 0 && len(s.watched)+size <= mostWatched {
		chunk, err := s.host.RequestBody(size)
		if err != nil || len(chunk) != size {
			return s.pass()
		}
		s.reply.value.Feed(chunk)
		whole := s.reply.value.Done || end
		if !whole || len(s.watched) > 0 {
			s.watched = append(s.watched, chunk...)
			chunk = s.watched
		}
		if !whole {
			return Continue
		}
		s.markIn(chunk)
	}
	if size > 0 || end {
		return s.pass()
	}
	return Continue
}

func (s *Stream) markIn(body []byte) {
	if !mcp.MayCancel(body) {
		return
	}
	r := &s.g.request
	defer r.Release()
	r.Read(body, nil)
	s.mark(r)
}

// mark marks the calls of the caller that a body cancels.
func (s *Stream) mark(r *mcp.Request) {
	r.EachCancelled(func(id []byte) {
		s.call.mark.Request = anyRequest
		if id != nil {
			s.call.mark.Request = sketch(string(id))
		}
		s.g.marks.Cancel(s.call.mark)
	})
}

// markCancelled is mark for a request whose headers are still there. Whoever has no scope
// has no calls in it.
func (s *Stream) markCancelled(r *mcp.Request) {
	if s.policy == misnamed || !r.Cancels() {
		return
	}
	if scope, refusal, _ := s.scopeOf(); refusal == nil {
		s.call.mark = ledger.Cancellation{Scope: scope.scope, Session: sketch(s.call.session)}
		s.mark(r)
	}
}

// wasCancelled reports whether a claimed call was cancelled while it ran.
func (s *Stream) wasCancelled() bool {
	every := s.call.mark
	every.Request = anyRequest
	return s.g.marks.Cancelled(s.call.mark, s.lease.Claimed) || s.g.marks.Cancelled(every, s.lease.Claimed)
}

// anyRequest stands for all requests of a session, in the mark of a cancellation of which it
// cannot be told what a server reads. The id of none is sketched as 0.
const anyRequest = 0

// settleNoResult settles a call that the server answered with anything but a result. For
// one that was cancelled that says nothing.
func (s *Stream) settleNoResult(ev ledger.Event, cause string) {
	if ev != ledger.MarkUnknown && s.wasCancelled() {
		ev, cause = ledger.MarkUnknown, byCancelled
	}
	s.settle(ledger.Outcome{Event: ev}, cause)
}
