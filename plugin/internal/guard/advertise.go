package guard

import (
	"bytes"
	"strconv"

	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
	"github.com/callonce/callonce/plugin/internal/scratch"
)

// maxAdvertised is the longest answer, or event, that an advert is put into, in
// bytes. A longer one passes as it came.
const maxAdvertised = 1 << 20

// mostAdvertBuffered bounds, softly, what all such answers together keep in this VM, in
// bytes, and mostAdverts how many there are. A server chooses how slowly it answers.
// What comes beyond passes as it came, and is counted.
const (
	mostAdvertBuffered = 8 << 20
	mostAdverts        = 1024
)

// maxPausedUnframed is the most that is buffered, in bytes, while the proxy is told to
// pause, where its chunks may be longer than what it buffers (see advertising.frames).
const maxPausedUnframed = 2 << 10

// advertising is an answer on its way that gains an advert. Its bytes wait here: an
// event goes on with its last line, a JSON body with its last byte.
//
// Trailers may end an answer, and a body callback, which alone can put bytes on their
// way, does not follow. So the proxy is told to pause while something is buffered, with an
// empty buffer: what pauses can be filled and let go by the trailers too.
type advertising struct {
	advert   mcp.Advert
	form     form
	buffered []byte
	whole    int // bytes of it that are whole events
	known    int // bytes behind these that are known to contain no event's end
	value    mcp.Value
	expect   int // Content-Length, -1 = not given
	got      int

	// frames says that the body comes in HTTP/2 frames, or may. Over HTTP/1 the proxy reads
	// up to 128 KiB at once, whatever it may buffer, and answers a chunk that is over that
	// limit, when it pauses, with a reset (Envoy's source; not measured).
	frames  bool
	counted int  // bytes of buffered that the guard has counted
	paused  bool // the proxy pauses, and its buffer is empty
	taken   bool // the chunk that is passing is in buffered
}

// advertises gives the method, "" where the policy adds nothing to its answers. What it
// gives outlives the request's headers, in which method may lie.
func advertises(p *policy.Policy, method string) string {
	if p.Advertise && !p.Observe {
		for _, known := range [...]string{mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodTools} {
			if method == known {
				return known
			}
		}
	}
	return ""
}

// passWith lets a request go on whose answer may gain an advert.
func (s *Stream) passWith(method string) Action {
	if method = advertises(s.policy, method); method == "" {
		return s.pass()
	}
	if s.g.adverts >= mostAdverts {
		s.g.counts.add(s.label(), advertsLeftOut)
		return s.pass()
	}
	if !s.wait.wentAhead() && s.host.RemoveRequestHeader("accept-encoding") != nil {
		return s.pass()
	}
	s.stage, s.head = advertised, head{}
	s.call.id = mcp.RetainID(s.call.id)
	argument, _ := s.policy.ArgumentKey()
	s.advert = &advertising{expect: -1, advert: mcp.Advert{
		Method: method, Argument: argument,
		Guarded: s.mayGuard(),
	}}
	s.g.adverts++
	return Continue
}

// dropAdvert ends the rewriting of an answer: what follows passes as it comes.
func (s *Stream) dropAdvert() {
	if s.stage = passing; s.listing != nil {
		s.stage = listed
	}
	if a := s.advert; a != nil {
		s.g.adverts--
		s.g.advertBuffered -= a.counted
		s.advert = nil
	}
}

// beginAdvert looks at the head of such an answer.
func (s *Stream) beginAdvert(end bool) {
	lines, err := s.host.ResponseHeaders()
	if err != nil || end {
		s.dropAdvert()
		return
	}
	a := s.advert
	a.frames = true
	status, contentType, encoding, trailers := 0, "", "", false
	for _, l := range lines {
		switch l[0] {
		case ":status":
			status, _ = strconv.Atoi(l[1])
		case "content-type":
			contentType = l[1]
		case "content-encoding":
			encoding = join(encoding, l[1])
		case "content-length":
			if n, err := strconv.Atoi(l[1]); err == nil {
				a.expect = n
			}
		case "transfer-encoding", "connection":
			a.frames = false
		case "trailer":
			trailers = true
		}
	}
	switch {
	case status != 200 || !mcp.IsIdentity(encoding):
	case a.expect > maxAdvertised && mcp.IsJSON(contentType):
	case trailers && !a.frames:
		// HTTP/1 that says so: see maxPausedUnframed.
	case mcp.IsEventStream(contentType):
		a.form = asEvents
	case mcp.IsJSON(contentType):
		a.form = asJSON
	}
	if a.form == unread || s.host.RemoveResponseHeader("content-length") != nil {
		s.dropAdvert()
	}
}

// passAdvert puts the advert into what is passing.
func (s *Stream) passAdvert(size int, end bool) Action {
	a := s.advert
	a.taken = false
	if size > 0 {
		chunk, err := s.host.ResponseBody(size)
		if err != nil || len(chunk) != size {
			s.dropAdvert() // what is buffered cannot be put before it: the chunk was not read
			return Continue
		}
		a.buffered = append(a.buffered, chunk...)
		a.got, a.taken = a.got+size, true
		if a.form == asJSON {
			a.value.Feed(chunk)
		}
	}
	out := s.advertPart(end || a.expect >= 0 && a.got >= a.expect)
	if size > 0 || len(out) > 0 {
		s.putAdvert(out)
	}
	if s.advert == nil {
		return Continue
	}
	a.paused = len(a.buffered) > 0 && len(out) == 0 && a.canPause()
	return Action(a.paused)
}

// endAdvert lets go what is buffered when trailers end the answer.
func (s *Stream) endAdvert() {
	paused := s.advert.paused
	switch out := s.advertPart(true); {
	case len(out) == 0:
	case paused:
		s.putAdvert(out)
	default:
		s.g.log("the end of an answer is lost: trailers came that were not announced")
	}
}

// failAdvert lets go what is buffered after a fault of our own.
func (s *Stream) failAdvert() {
	a := s.advert
	if a == nil {
		return
	}
	defer func() { _ = recover() }()
	if s.dropAdvert(); a.taken {
		s.putAdvert(a.buffered)
	}
}

func (s *Stream) putAdvert(out []byte) {
	if s.host.ReplaceResponseBody(out) != nil {
		s.g.log("the proxy took no change of an answer")
	}
}

// advertPart takes what can go on out of what is buffered.
func (s *Stream) advertPart(end bool) (out []byte) {
	a := s.advert
	if s.isAdvertTooLong() {
		s.g.counts.add(s.label(), advertsLeftOut)
		s.dropAdvert()
		return a.buffered
	}
	defer s.g.response.Release()
	if a.form == asJSON {
		out = s.advertValue(end)
	} else {
		out = s.advertEvents(end)
	}
	if end {
		s.dropAdvert()
	}
	return out
}

// isAdvertTooLong reports whether what is buffered is more than may be of one answer, or of
// all.
func (s *Stream) isAdvertTooLong() bool {
	s.countAdvert()
	return len(s.advert.buffered) > maxAdvertised || s.g.advertBuffered > mostAdvertBuffered
}

func (s *Stream) countAdvert() {
	a := s.advert
	s.g.advertBuffered += cap(a.buffered) - a.counted
	a.counted = cap(a.buffered)
}

// canPause reports whether the proxy may be told to pause until more comes. With a
// length, no trailers end a body that is not whole.
func (a *advertising) canPause() bool {
	return a.expect < 0 && (a.frames || len(a.buffered) <= maxPausedUnframed)
}

// advertValue gives a JSON body once it is there, and at once what is no object.
func (s *Stream) advertValue(end bool) []byte {
	a := s.advert
	begun := bytes.TrimLeft(a.buffered, " \t\r\n")
	if !a.value.Done && !end && (len(begun) == 0 || begun[0] == '{') {
		return nil
	}
	defer s.dropAdvert()
	if changed, ok := s.g.response.AppendAdvert(nil, a.buffered, s.call.id, &a.advert); ok {
		return changed
	}
	return a.buffered
}

// advertEvents gives the events that are there. Where the proxy can pause, nothing goes on
// before an event that has only begun: with bytes on their way it could not pause.
func (s *Stream) advertEvents(end bool) (out []byte) {
	a := s.advert
	for {
		n := mcp.EventEnd(a.buffered[a.whole:], a.known)
		if n == 0 {
			break
		}
		a.whole, a.known = a.whole+n, 0
	}
	rest := a.buffered[a.whole:]
	a.known = len(rest)
	events := a.buffered[:a.whole]
	switch {
	case end || areFields(rest):
		rest = nil
	case len(events) == 0 || a.canPause():
		return nil
	}
	for len(events) > 0 {
		n := mcp.EventEnd(events, 0)
		changed, ok := s.g.response.AppendEventAdvert(out, events[:n], s.call.id, &a.advert)
		if out = changed; !ok {
			out = append(out, events[:n]...)
		}
		events = events[n:]
	}
	out = append(out, a.buffered[a.whole:len(a.buffered)-len(rest)]...)
	a.buffered, a.whole, a.known = append(scratch.Keep(a.buffered), rest...), 0, len(rest)
	s.countAdvert()
	return out
}

// areFields reports whether the beginning of an event is whole lines without data. They
// may go on: what follows them is an event as well.
func areFields(b []byte) bool {
	for len(b) > 0 {
		at := bytes.IndexAny(b, "\r\n")
		if at < 0 || bytes.HasPrefix(b, []byte("data")) {
			return false
		}
		b = b[at+1:]
	}
	return true
}
