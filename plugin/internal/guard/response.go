package guard

import (
	"strconv"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// form is how the answer to a claimed call comes back.
type form uint8

const (
	unread form = iota // nothing in it is looked at
	asJSON
	asEvents
)

// readAlong is what is known of the answer while it passes. Nothing of it is ever
// held back from the client.
type readAlong struct {
	form    form
	cap     int // most bytes of a message that is kept
	status  int
	expect  int // Content-Length, -1 = not given
	got     int
	body    mcp.Text
	value   mcp.Value
	events  mcp.Events
	odd     bool // an event was refused by the strict reader
	settled bool
	event   ledger.Event // how it was settled
	fenced  bool         // the hold was lost: no other word of it counts
	ended   bool         // the proxy said that the answer is whole
}

// ResponseHeaders is called with the answer's headers; end says that there is no
// body.
func (s *Stream) ResponseHeaders(end bool) (a Action) {
	defer s.contain(answerBegins, &a)
	if s.stage == reading || s.stage == asking {
		// Answered before the call was judged, by the proxy or by a server that had only the
		// headers: the body must not follow.
		s.leaveLedger()
		s.stage = replied
	}
	if s.stage == advertised {
		s.beginAdvert(end)
	}
	if s.stage != forwarded {
		return Continue
	}
	lines, err := s.host.ResponseHeaders()
	if err != nil {
		s.settle(ledger.Outcome{Event: ledger.MarkUnknown})
		return Continue
	}
	var encoding, contentType string
	r := &s.reply
	r.expect, r.ended = -1, end
	for _, l := range lines {
		switch l[0] {
		case ":status":
			r.status, _ = strconv.Atoi(l[1])
		case "content-type":
			contentType = l[1]
		case "content-encoding":
			encoding = join(encoding, l[1])
		case "content-length":
			if n, err := strconv.Atoi(l[1]); err == nil {
				r.expect = n
			}
		}
	}
	if s.byHead(contentType, encoding) {
		return Continue
	}
	if mcp.IsEventStream(contentType) {
		r.form, r.events.Cap = asEvents, r.cap
	} else {
		r.form, r.body.Cap = asJSON, r.cap
	}
	if end {
		s.atEnd()
	}
	return Continue
}

// byHead settles what the head alone decides: the rows of the contract's section 3
// that need no body.
func (s *Stream) byHead(contentType, encoding string) (settled bool) {
	r := &s.reply
	details, _ := s.host.Property(propDetails)
	if string(details) != viaUpstream {
		flags, _ := s.host.Property(propFlags)
		attempts, _ := s.host.Property(propAttempts)
		ev := ledger.MarkUnknown
		if nothingSent(string(details), flags, attempts) || s.answeredBehind(string(details)) {
			ev = ledger.Release
		}
		s.settle(ledger.Outcome{Event: ev})
		return true
	}
	switch {
	case s.policy.Released(r.status):
		s.settleNoResult(ledger.Release)
	case r.status >= 500, r.status == 408, r.status == 499, r.status < 200:
		s.settleNoResult(ledger.MarkUnknown)
	case r.status >= 400:
		s.settleNoResult(ledger.Release)
	case r.status == 307, r.status == 308:
		// A router sent the caller elsewhere, with the same call: its answer there is kept
		// under that path.
		s.settle(ledger.Outcome{Event: ledger.Release})
	case r.status >= 300:
		// Where to look for the outcome, perhaps: nobody knows what the server did before.
		s.settleNoResult(ledger.MarkUnknown)
	case !mcp.IsIdentity(encoding):
		s.settleNoResult(ledger.MarkNotReplayable)
	case mcp.IsEventStream(contentType):
		return false
	case !mcp.IsJSON(contentType):
		s.settleNoResult(ledger.MarkNotReplayable)
	default:
		return false
	}
	return true
}

// ResponseBody is called with each chunk as it passes.
func (s *Stream) ResponseBody(size int, end bool) (a Action) {
	defer s.contain(answerPasses, &a)
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
			s.settle(ledger.Outcome{Event: ledger.MarkUnknown})
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
	if r.settled {
		if r.value.Feed(chunk); r.value.Trailed {
			// What was judged as the whole was not: it is no JSON text.
			s.settle(ledger.Outcome{Event: ledger.MarkNotReplayable})
		}
		return
	}
	whole := r.expect >= 0 && r.got >= r.expect
	if r.expect < 0 {
		r.value.Feed(chunk)
		whole = r.value.Done
	}
	if whole && r.body.Len() == 0 && len(chunk) <= r.cap {
		s.judgeBody(chunk)
		return
	}
	switch r.body.Add(chunk); {
	case r.body.Over:
		r.body = mcp.Text{}
		s.settleNoResult(ledger.MarkNotReplayable)
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
		return s.readBeginning(data)
	}
	data = mcp.Trim(data)
	switch a := s.g.response.Read(data, s.call.id); a {
	case mcp.NotOurs:
		return false
	case mcp.Malformed:
		s.reply.odd = true
		return false
	default:
		s.complete(a, data)
		return true
	}
}

// readBeginning looks at the beginning of an event that is too long to be kept. What the
// rest holds changes nothing for a response: no repeat will ever get it.
func (s *Stream) readBeginning(data []byte) bool {
	switch s.g.response.Begins(data, s.call.id) {
	case mcp.NotOurs:
	case mcp.Malformed:
		s.reply.odd = true
	default:
		s.settleNoResult(ledger.MarkNotReplayable)
	}
	return false
}

// judgeBody reads a whole JSON body. What comes after it is a part of no JSON text.
func (s *Stream) judgeBody(body []byte) {
	defer s.g.response.Release()
	s.reply.body, s.reply.value.Done = mcp.Text{}, true
	body = mcp.Trim(body)
	switch a := s.g.response.Read(body, s.call.id); a {
	case mcp.NotOurs, mcp.Malformed:
		s.settleNoResult(ledger.MarkNotReplayable)
	default:
		s.complete(a, body)
	}
}

// complete settles with the message that ends the call, before its last byte has
// gone on: a repeat sent right after it finds the answer.
func (s *Stream) complete(a mcp.Answer, message []byte) {
	switch a {
	case mcp.InputRequired:
		s.settle(ledger.Outcome{Event: ledger.Release})
		return
	case mcp.Cancelled:
		// The server says by itself that it was told to stop.
		s.settle(ledger.Outcome{Event: ledger.MarkUnknown})
		return
	case mcp.ToolError, mcp.Failed:
		if s.wasCancelled() {
			s.settle(ledger.Outcome{Event: ledger.MarkUnknown})
			return
		}
	}
	if ptr := s.call.tool.ResultID; ptr != "" {
		if id := s.g.response.ResultID(message, ptr, maxPublished); id != "" {
			s.state("callonce.result_id", id)
		}
	}
	if a == mcp.ToolError && s.call.tool.ReleaseToolError || a == mcp.Failed && s.policy.ReleasedError(s.call.tool, s.g.response.Code) {
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

// settle tells the ledger. Only the holder's word counts; the ledger itself counts one
// that came late, and one that it takes later.
func (s *Stream) settle(o ledger.Outcome) {
	s.reply.settled, s.reply.event = true, o.Event
	if s.reply.fenced {
		return
	}
	switch s.g.store.Settle(s.lease, o) {
	case ledger.Applied:
		s.g.counts.add(s.label(), settlements, hows[o.Event])
	case ledger.Fenced:
		s.reply.fenced = true
	}
}

// releaseMemory lets go of what was kept of the answer. What is still read of it needs nothing.
func (r *readAlong) releaseMemory() {
	r.body, r.events = mcp.Text{}, mcp.Events{Cap: r.cap}
}
