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
// kept from the client.
type readAlong struct {
	form    form
	cap     int // most bytes of a message that is kept
	status  int
	expect  int // Content-Length, -1 = not given
	got     int
	body    mcp.Text
	value   mcp.Value
	events  mcp.Events
	odd     odd    // what of it cannot be told
	freed   freed  // what it said so far of a call that did not run
	freedBy string // why
	settled bool
	event   ledger.Event // how it was settled
	unkept  bool         // it completed the call, and the store could not keep it
	fenced  bool         // the lease was lost: no later settlement of it counts
	ended   bool         // the proxy said that the answer is whole
}

// freed is what an answer said that frees the key. It takes effect at the answer's end: a
// result may follow, and the key must not be free while the call runs.
type freed uint8

const (
	notFreed     freed = iota
	freedUnnamed       // an error that names no request: it need not be the end of this call
	freedByError       // an error, or a result that says isError, of this call
	freedForALeg       // a result that asks for another leg
)

// odd is what cannot be told of an event, or of its beginning where it is too long.
type odd uint8

const (
	notOdd      odd = iota
	perhapsOurs     // whether it was the call's answer
	surelyOurs      // what the call was answered
)

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
	if s.stage == holding {
		s.leaveCallout() // the proxy has answered the caller
		s.stage = replied
	}
	if s.listing != nil {
		s.beginListing(end)
	}
	if s.stage == advertised {
		s.beginAdvert(end)
	}
	if s.stage != forwarded {
		return Continue
	}
	lines, err := s.host.ResponseHeaders()
	if err != nil {
		s.settle(ledger.Outcome{Event: ledger.MarkUnknown}, byProxyFault)
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

// statusRules are what a server's status alone makes of the key (section 3 of the contract).
// The first that fits decides; a status that none fits leaves the outcome unknown.
var statusRules = [...]struct {
	from, to int
	then     ledger.Event
	cause    string
	surely   bool // also of a call that was cancelled: it did not run here
	readOn   bool // the rest of the answer decides
}{
	{from: 200, to: 299, readOn: true},
	// A router sent the caller elsewhere, with the same call: its answer there is kept under
	// that path.
	{from: 307, to: 308, then: ledger.Release, cause: byRedirect, surely: true},
	// Other redirections say where to look for the outcome, perhaps. Nobody knows what the
	// server did before.
	{from: 300, to: 399, then: ledger.MarkUnknown, cause: byStatus3xx},
	{from: 408, to: 408, then: ledger.MarkUnknown, cause: byStatus4xx},
	{from: 499, to: 499, then: ledger.MarkUnknown, cause: byStatus4xx},
	{from: 400, to: 499, then: ledger.Release, cause: byStatus4xx},
	{from: 500, to: 599, then: ledger.MarkUnknown, cause: byStatus5xx},
}

// byHead settles what the head alone decides: the rows of section 3 that need no body.
func (s *Stream) byHead(contentType, encoding string) (settled bool) {
	details, _ := s.host.Property(propDetails)
	if string(details) != viaUpstream {
		s.settleLocalReply(string(details))
		return true
	}
	return s.byStatus() || s.byForm(contentType, encoding)
}

// settleLocalReply settles a call that the proxy, or a filter in it, answered by itself.
func (s *Stream) settleLocalReply(details string) {
	flags, _ := s.host.Property(propFlags)
	attempts, _ := s.host.Property(propAttempts)
	if nothingSent(details, flags, attempts) || s.answeredBehind(details) {
		s.settle(ledger.Outcome{Event: ledger.Release}, byNothingSent)
		return
	}
	s.settle(ledger.Outcome{Event: ledger.MarkUnknown}, lossBy(flags, byProxyReply))
}

// byStatus settles what the status decides.
func (s *Stream) byStatus() (settled bool) {
	status := s.reply.status
	if s.policy.Released(status) {
		s.settleNoResult(ledger.Release, byReleasedStatus)
		return true
	}
	for i := range statusRules {
		switch r := &statusRules[i]; {
		case status < r.from || status > r.to:
			continue
		case r.readOn:
			return false
		case r.surely:
			s.settle(ledger.Outcome{Event: r.then}, r.cause)
		default:
			s.settleNoResult(r.then, r.cause)
		}
		return true
	}
	s.settleNoResult(ledger.MarkUnknown, byStatusOther)
	return true
}

// byForm settles an answer whose body cannot be read along. What is encoded is taken for the
// call's answer; what is no message of the protocol, a page that asks for a login perhaps, is not.
func (s *Stream) byForm(contentType, encoding string) (settled bool) {
	switch {
	case !mcp.IsEventStream(contentType) && !mcp.IsJSON(contentType):
		s.settle(ledger.Outcome{Event: ledger.MarkUnknown}, byContentType)
	case !mcp.IsIdentity(encoding):
		s.settleNoResult(ledger.MarkNotReplayable, byContentEncoding)
	default:
		return false
	}
	return true
}
