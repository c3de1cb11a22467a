package guard

import (
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
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
	// A body without a response to the call: nobody knows whether it ran.
	mcp.NotOurs: {ledger.MarkUnknown, ledger.MarkUnknown},
	mcp.Unnamed: {ledger.MarkUnknown, ledger.MarkUnknown},
	// A body that cannot be read for certain. Of one without a response: see complete.
	mcp.Malformed: {ledger.MarkNotReplayable, ledger.MarkUnknown},
}

// complete settles with the message that ends the call, before its last byte has
// gone on: a repeat sent right after it finds the answer.
//
// What frees the key waits for the answer's end, and yields to what else answers the call.
func (s *Stream) complete(a mcp.Answer, message []byte) {
	rule := messageRules[a]
	switch {
	case a == mcp.Unnamed && (s.reply.form == asEvents || s.released(a)):
		s.frees(a) // or not: the answer may follow
		return
	case a == mcp.Malformed && !s.g.response.Ours:
		rule.then = ledger.MarkUnknown
	}
	if rule.then != rule.cancelled && s.wasCancelled() {
		s.settle(ledger.Outcome{Event: rule.cancelled}, byCancelled)
		return
	}
	cause := answerCauses[a]
	switch {
	case rule.then == ledger.Release:
		s.frees(a)
		return
	case rule.then != ledger.Complete:
		s.settle(ledger.Outcome{Event: rule.then}, cause)
		return
	}
	if ptr := s.call.tool.ResultID; ptr != "" {
		if id := s.g.response.ResultID(message, ptr, maxPublished); id != "" {
			s.state(stateResult, id)
		}
	}
	if s.notDone(a, message) {
		s.noteFreed(freedForALeg, byNotDone)
		return
	}
	if s.released(a) {
		s.frees(a)
		return
	}
	if a == mcp.ToolError || a == mcp.Failed {
		s.g.counts.add(s.label(), completedErrors, s.call.tool.Match, cause)
	}
	s.settle(ledger.Outcome{Event: ledger.Complete, Reply: ledger.Reply{
		Status:  s.reply.status,
		IDStart: s.g.response.IDStart,
		IDEnd:   s.g.response.IDEnd,
		Task:    a == mcp.Task,
		Message: message,
	}}, cause)
}

// frees notes what will free the key at the answer's end.
func (s *Stream) frees(a mcp.Answer) {
	switch {
	case a == mcp.InputRequired:
		s.noteFreed(freedForALeg, byInputRequired)
	case a == mcp.Unnamed && !s.released(a):
	case a == mcp.Unnamed:
		s.noteFreed(freedUnnamed, byErrorCode)
	case a == mcp.Failed && s.policy.ReleasedError(s.call.tool, s.g.response.Code):
		s.noteFreed(freedByError, byErrorCode)
	default:
		s.noteFreed(freedByError, answerCauses[a])
	}
}

func (s *Stream) noteFreed(by freed, cause string) {
	if by > s.reply.freed {
		s.reply.freed, s.reply.freedBy = by, cause
	}
}

// released reports whether an error says, by itself or by the configuration, that the tool
// has not run, or that it failed and may be called again.
func (s *Stream) released(a mcp.Answer) bool {
	switch a {
	case mcp.ToolError:
		return s.call.tool.ReleaseToolError
	case mcp.Failed:
		return s.call.tool.ReleaseError || s.policy.ReleasedError(s.call.tool, s.g.response.Code)
	case mcp.Unnamed:
		return s.policy.ReleasedError(s.call.tool, s.g.response.Code)
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
	if r.form == asJSON && !r.settled && r.freed == notFreed {
		s.judgeBody(r.body.Bytes())
	}
	switch {
	case r.settled && r.form == asEvents && r.events.Open():
		// The response was too long, and does not even end.
		s.settle(ledger.Outcome{Event: ledger.MarkUnknown}, byCutShort)
	case r.settled:
	case r.freed != notFreed:
		s.settleFreed()
	case r.odd == surelyOurs && !r.events.Open():
		s.settleNoResult(ledger.MarkNotReplayable, byMalformed)
	default:
		// The stream ended without the response: it may come on another one, or never.
		s.settle(ledger.Outcome{Event: ledger.MarkUnknown}, byNoResponse)
	}
}

// settleFreed frees the key at the end of an answer that said that nothing ran, where
// nothing else came that may have been the answer.
func (s *Stream) settleFreed() {
	r := &s.reply
	switch {
	case r.odd != notOdd, r.events.Begun(), r.form == asJSON && !r.value.Done && !(r.ended && r.expect >= 0):
		s.settle(ledger.Outcome{Event: ledger.MarkUnknown}, byMalformed)
	case r.freed == freedForALeg:
		s.settle(ledger.Outcome{Event: ledger.Release}, r.freedBy)
	default:
		s.settleNoResult(ledger.Release, r.freedBy)
	}
}

// takeBack settles a body of which more came than was judged as the whole: it is no JSON
// text, and what followed an error may have been a result.
func (s *Stream) takeBack() {
	if s.reply.unkept {
		return
	}
	ev := ledger.MarkNotReplayable
	if !s.reply.settled {
		ev = ledger.MarkUnknown
	}
	s.settle(ledger.Outcome{Event: ev}, byMalformed)
}

// settleAtEnd is the stream's end. An answer that did not pass whole leaves an
// unknown outcome, also where it had been judged by its beginning, unless it told its
// client that the call did not run: who has read that need not wait for a stream that the
// server leaves open.
func (s *Stream) settleAtEnd() {
	r := &s.reply
	if !r.settled && r.freed > freedUnnamed {
		s.settleFreed()
		return
	}
	if !r.settled || r.event == ledger.MarkNotReplayable && !r.ended {
		flags, _ := s.host.Property(propFlags)
		s.settle(ledger.Outcome{Event: ledger.MarkUnknown}, lossBy(flags, byCutShort))
	}
}

// hows names the ways to settle, as label values.
var hows = [...]string{
	ledger.Complete:          "completed",
	ledger.Release:           "released",
	ledger.MarkUnknown:       "outcome_unknown",
	ledger.MarkNotReplayable: "not_replayable",
}

// settle tells the ledger, and publishes what became of the call, and why: one of the words
// of cause.go. Only the holder's settlement counts; the ledger itself counts one that came
// late, and one that it takes later.
func (s *Stream) settle(o ledger.Outcome, cause string) {
	s.reply.settled, s.reply.event = true, o.Event
	if s.reply.fenced {
		return
	}
	if o.Event == ledger.Complete || o.Event == ledger.MarkNotReplayable {
		s.tookSoLong()
	}
	o.Why = ledger.Why{Cause: causeNumber(cause), Status: s.reply.status}
	done := s.g.store.Settle(s.lease, o)
	if done&ledger.Unkept != 0 {
		s.reply.unkept = true
		o = ledger.Outcome{Event: ledger.MarkNotReplayable, Why: o.Why}
	}
	how := hows[o.Event]
	switch done &^ ledger.Unkept {
	case ledger.Applied:
		s.g.counts.add(s.label(), settlements, how)
		s.settleRoot(o)
	case ledger.Pending:
		s.settleRoot(o)
	case ledger.Fenced:
		// The others took this worker for dead, and have marked the call unknown.
		s.reply.fenced = true
		how, cause = hows[ledger.MarkUnknown], byHolderLost
	}
	s.settledLease(&s.lease)
	if s.logs(policy.FieldSettled) {
		s.state(stateSettled, how)
	}
	if s.logs(policy.FieldSettledBy) {
		s.state(stateSettledBy, cause)
	}
}
