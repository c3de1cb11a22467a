package guard

import (
	"github.com/callonce/callonce/plugin/ledger"
	"github.com/callonce/callonce/plugin/mcp"
)

// A client that gives up a call may say so in a notification, on another connection and
// to another worker, before it leaves. What the server then answers is no outcome: it may
// have stopped anywhere. So the cancellation is marked, before the server hears of it,
// and an answer that is no result counts as none where the mark is there.

// mostWatched is the longest body, in bytes, that is looked at while it passes.
const mostWatched = 8 << 10

// watch lets a request go on of which a policy needs nothing, and looks for a
// cancellation in its body while it passes. Nothing is held.
func (s *Stream) watch(end bool) Action {
	a := s.pass()
	if !end {
		s.stage = watching
	}
	return a
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
	s.markCancelled(r)
}

// markCancelled marks the calls that a body cancels.
func (s *Stream) markCancelled(r *mcp.Request) {
	var calls []uint64
	r.EachCancelled(func(id []byte) { calls = append(calls, sketch(string(id))) })
	if len(calls) == 0 || s.policy == misnamed {
		return
	}
	if s.head.lines == nil {
		lines, err := s.host.RequestHeaders()
		if err != nil {
			return
		}
		s.head = readHead(lines, s.policy)
	}
	place, refusal, _ := s.scopeOf()
	if refusal != nil {
		return // whoever has no scope has no calls in it
	}
	for _, call := range calls {
		s.g.marks.Cancel(ledger.Cancellation{Scope: place.scope, Session: sketch(s.call.session), Request: call})
	}
}

// wasCancelled reports whether a claimed call was cancelled while it ran.
func (s *Stream) wasCancelled() bool { return s.g.marks.Cancelled(s.call.mark, s.hold.Claimed) }

// settleNoResult settles a call that the server answered with anything but a result. For
// one that was cancelled that says nothing.
func (s *Stream) settleNoResult(ev ledger.Event) {
	if ev != ledger.BuryUnknown && s.wasCancelled() {
		ev = ledger.BuryUnknown
	}
	s.settle(ledger.Outcome{Event: ev})
}
