package guard

import (
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// messageRules are what the message that ends a call makes of its key (section 3 of the
// contract), and what it makes of it where the call was cancelled.
var messageRules = [...]struct{ then, cancelled ledger.Event }{
	mcp.Result:        {ledger.Complete, ledger.Complete},
	mcp.Task:          {ledger.Complete, ledger.Complete},
	mcp.Failed:        {ledger.Complete, ledger.MarkUnknown}, // or released: see released
	mcp.ToolError:     {ledger.Complete, ledger.MarkUnknown}, // likewise
	mcp.InputRequired: {ledger.Release, ledger.Release},
	// The server says by itself that it was told to stop.
	mcp.Cancelled: {ledger.MarkUnknown, ledger.MarkUnknown},
	// A body without a response to the call, or none that can be read for certain.
	mcp.NotOurs:   {ledger.MarkNotReplayable, ledger.MarkUnknown},
	mcp.Malformed: {ledger.MarkNotReplayable, ledger.MarkUnknown},
}

// complete settles with the message that ends the call, before its last byte has
// gone on: a repeat sent right after it finds the answer.
func (s *Stream) complete(a mcp.Answer, message []byte) {
	rule := messageRules[a]
	if rule.then != rule.cancelled && s.wasCancelled() {
		s.settle(ledger.Outcome{Event: rule.cancelled})
		return
	}
	if rule.then != ledger.Complete {
		s.settle(ledger.Outcome{Event: rule.then})
		return
	}
	if ptr := s.call.tool.ResultID; ptr != "" {
		if id := s.g.response.ResultID(message, ptr, maxPublished); id != "" {
			s.state(stateResult, id)
		}
	}
	if s.released(a) || s.notDone(a, message) {
		s.settle(ledger.Outcome{Event: ledger.Release})
		return
	}
	s.settle(ledger.Outcome{Event: ledger.Complete, Reply: ledger.Reply{
		Status:  s.reply.status,
		IDStart: s.g.response.IDStart,
		IDEnd:   s.g.response.IDEnd,
		Task:    a == mcp.Task,
		Message: message,
	}})
}

// released reports whether an error says, by itself or by the configuration, that the tool
// has not run, or that it failed and may be called again.
func (s *Stream) released(a mcp.Answer) bool {
	switch a {
	case mcp.ToolError:
		return s.call.tool.ReleaseToolError
	case mcp.Failed:
		return s.call.tool.ReleaseError || s.policy.ReleasedError(s.call.tool, s.g.response.Code)
	}
	return false
}

// notDone reports whether a result says, by the configuration, that the tool has not done
// what it was called for, as one that asks for a confirmation first. A task's handle never
// does: what it began goes on.
func (s *Stream) notDone(a mcp.Answer, message []byte) bool {
	return (a == mcp.Result || a == mcp.ToolError) && s.g.response.Shows(message, s.call.tool.NotDone)
}

// atEnd settles an answer that has passed whole and has not settled itself.
func (s *Stream) atEnd() {
	r := &s.reply
	switch {
	case r.settled && r.form == asEvents && r.events.Open():
		// The response was too long, and does not even end.
		s.settle(ledger.Outcome{Event: ledger.MarkUnknown})
	case r.settled:
	case r.form == asJSON:
		s.judgeBody(r.body.Bytes())
	case r.odd && !r.events.Open():
		s.settleNoResult(ledger.MarkNotReplayable)
	default:
		// The stream ended without the response: it may come on another one, or never.
		s.settle(ledger.Outcome{Event: ledger.MarkUnknown})
	}
}

// settleAtEnd is the stream's end. An answer that did not pass whole leaves an
// unknown outcome, also where it had been judged by its beginning.
func (s *Stream) settleAtEnd() {
	r := &s.reply
	if !r.settled || r.event == ledger.MarkNotReplayable && !r.ended {
		s.settle(ledger.Outcome{Event: ledger.MarkUnknown})
	}
}

// hows names the ways to settle, as label values.
var hows = [...]string{
	ledger.Complete:          "completed",
	ledger.Release:           "released",
	ledger.MarkUnknown:       "outcome_unknown",
	ledger.MarkNotReplayable: "not_replayable",
}

// settle tells the ledger. Only the holder's settlement counts; the ledger itself counts
// one that came late, and one that it takes later.
func (s *Stream) settle(o ledger.Outcome) {
	s.reply.settled, s.reply.event = true, o.Event
	if s.reply.fenced {
		return
	}
	switch s.g.store.Settle(s.lease, o) {
	case ledger.Applied:
		s.g.counts.add(s.label(), settlements, hows[o.Event])
		s.settleRoot(o)
	case ledger.Fenced:
		s.reply.fenced = true
	}
}
