package guard

import (
	"strconv"

	"github.com/callonce/callonce/plugin/mcp"
	"github.com/callonce/callonce/plugin/policy"
)

// maxAdvertised is the longest answer, or event, that an advert is put into, in
// bytes. A longer one passes as it came.
const maxAdvertised = 1 << 20

// advertising is an answer on its way that gains an advert. Its bytes wait here, not
// in the proxy, which is never told to pause: an event goes on with its last line, a
// JSON body with its last byte.
type advertising struct {
	advert mcp.Advert
	form   form
	held   []byte
	known  int // bytes of it that are known to hold no event's end
	value  mcp.Value
}

// advertises reports whether the policy adds to the answers of a method.
func advertises(p *policy.Policy, method string) bool {
	if !p.Advertise || p.Observe {
		return false
	}
	return method == mcp.MethodInitialize || method == mcp.MethodDiscover || method == mcp.MethodTools
}

// passWith lets a request go on whose answer may gain an advert.
func (s *Stream) passWith(method string) Action {
	if !advertises(s.policy, method) {
		return s.pass()
	}
	if !s.ahead && s.host.RemoveRequestHeader("accept-encoding") != nil {
		return s.pass()
	}
	s.stage, s.head = advertised, head{}
	s.call.id = mcp.KeepID(s.call.id)
	argument, _ := s.policy.ArgumentKey()
	s.advert = &advertising{advert: mcp.Advert{
		Method: method, Argument: argument,
		Guarded: func(tool string) bool { return s.policy.Tool(tool).Guard != policy.GuardOff },
	}}
	return Continue
}

// beginAdvert looks at the head of such an answer.
func (s *Stream) beginAdvert(end bool) {
	lines, err := s.host.ResponseHeaders()
	if err != nil || end {
		s.stage = passing
		return
	}
	status, contentType, encoding := 0, "", ""
	for _, l := range lines {
		switch l[0] {
		case ":status":
			status, _ = strconv.Atoi(l[1])
		case "content-type":
			contentType = l[1]
		case "content-encoding":
			encoding = join(encoding, l[1])
		}
	}
	switch {
	case status != 200 || !mcp.IsIdentity(encoding):
	case mcp.IsEventStream(contentType):
		s.advert.form = asEvents
	case mcp.IsJSON(contentType):
		s.advert.form = asJSON
	}
	if s.advert.form == unread || s.host.RemoveResponseHeader("content-length") != nil {
		s.stage = passing
	}
}

// passAdvert puts the advert into what is passing.
func (s *Stream) passAdvert(size int, end bool) {
	a := s.advert
	if size > 0 {
		chunk, err := s.host.ResponseBody(size)
		if err != nil || len(chunk) != size {
			s.stage = passing // what is held cannot be put before it: the chunk was not read
			return
		}
		a.held = append(a.held, chunk...)
		if a.form == asJSON {
			a.value.Feed(chunk)
		}
	}
	out := s.advertPart(end)
	if size > 0 || len(out) > 0 {
		if s.host.ReplaceResponseBody(out) != nil {
			s.g.log("the proxy took no change of an answer")
		}
	}
}

// advertPart takes what can go on out of what is held.
func (s *Stream) advertPart(end bool) (out []byte) {
	a := s.advert
	if a.form == asJSON {
		long := len(a.held) > maxAdvertised
		if !a.value.Done && !end && !long {
			return nil
		}
		s.stage = passing
		if long {
			return a.held
		}
		if changed, ok := s.g.response.AppendAdvert(nil, a.held, s.call.id, &a.advert); ok {
			return changed
		}
		return a.held
	}
	for {
		n := mcp.EventEnd(a.held, a.known)
		if a.known = 0; n == 0 {
			a.known = len(a.held)
			break
		}
		changed, ok := s.g.response.AppendEventAdvert(out, a.held[:n], s.call.id, &a.advert)
		if out = changed; !ok {
			out = append(out, a.held[:n]...)
		}
		a.held = a.held[n:]
	}
	if end || len(a.held) > maxAdvertised {
		s.stage = passing
		out = append(out, a.held...)
	}
	return out
}
