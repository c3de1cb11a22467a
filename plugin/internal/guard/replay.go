package guard

import (
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/scratch"
)

// replay answers with the first answer, under the asking request's id.
func (s *Stream) replay(r ledger.Reply) Action {
	s.outcome(outReplay)
	if s.policy.Observe {
		return s.pass()
	}
	body := mcp.AppendReplay(s.g.buf[:0], r.Message, r.IDStart, r.IDEnd, s.call.id)
	s.g.buf = scratch.Keep(body)
	if s.policy.MarkMeta {
		body = s.g.response.AppendMarked(nil, body)
		s.g.response.Release()
	}
	if s.policy.MarkText {
		body = s.g.response.AppendMarkedText(nil, body)
		s.g.response.Release()
	}
	contentType := "application/json"
	if mcp.OnlyEvents(s.head.accept) {
		contentType = "text/event-stream"
		body = mcp.AppendEvent(make([]byte, 0, len(body)+32), body)
	}
	return s.answer(r.Status, [][2]string{
		{"content-type", contentType},
		{"idempotency-replayed", "true"},
	}, body)
}

// answer replies in the server's stead.
func (s *Stream) answer(status int, headers [][2]string, body []byte) Action {
	s.stage = replied
	s.head = head{}
	if s.host.Reply(status, headers, body) != nil {
		s.g.log("the proxy refused a local reply")
	}
	return Pause
}
