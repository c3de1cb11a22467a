package guard

import (
	"strconv"

	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// strayKey is a key header on something that is no tool call. Many clients can only
// set a header on all their requests, so it passes unless the policy says otherwise.
func (s *Stream) strayKey(method string) Action {
	s.g.counts.add(s.label(), strayKeys)
	if s.policy.RefuseStray {
		return s.refuse(&mcp.Unsupported, strayDetail)
	}
	return s.passWith(method)
}

// mostSniffed is the most bytes of a body that are looked at for its beginning.
const mostSniffed = 4 << 10

// isOtherType reports whether a body under a type that is not JSON's does not begin like JSON
// either. One that cannot be looked at is read on, and refused there.
func (s *Stream) isOtherType(size int, end bool) bool {
	body, err := s.host.RequestBody(min(size, mostSniffed))
	is, known := mcp.BeginsLikeJSON(body)
	if !known && err == nil && !end && size < mostSniffed {
		return false
	}
	s.sniffs = false
	return err == nil && !is
}

// passOtherType lets a body go on that is no JSON.
func (s *Stream) passOtherType() Action {
	if s.head.keyed {
		return s.strayKey("")
	}
	return s.pass()
}

// judge decides on a body read whole (rules 4 to 7 of the contract's order).
func (s *Stream) judge(body []byte) Action {
	r := &s.g.request
	defer r.Release()
	r.Read(body, s.policy.Pointers)
	s.call.id = append(s.call.id[:0], r.ID...)
	if c := s.head.charset; c == mcp.OtherCharset || c == mcp.LikeASCII && !mcp.IsASCII(body) {
		r.Doubt("a body whose charset is not UTF-8", body, s.policy.Pointers)
	}
	if r.Kind == mcp.ToolCall && !s.head.isJSON() {
		r.Doubt("a "+mcp.ToolsCall+" whose Content-Type is not application/json alone", body, s.policy.Pointers)
	}
	switch r.Kind {
	case mcp.Ambiguous:
		if s.policy == misnamed {
			return s.refuseMisnamed()
		}
		if s.head.keyed || r.Keyed || s.policy.MustGuard {
			return s.refuse(&mcp.Unsupported, defect(r))
		}
		s.markCancelled(r)
		return s.passAmbiguous(r, len(body))
	case mcp.Other:
		if !s.head.keyed || !s.policy.RefuseStray {
			s.markCancelled(r)
		}
		method := string(r.Method())
		s.listens(r)
		if s.head.keyed {
			return s.strayKey(method)
		}
		return s.passWith(method)
	}
	if h := s.routingMismatch(r); h != "" {
		return s.refuseMismatch(h)
	}
	if s.policy == misnamed {
		return s.refuseMisnamed()
	}
	return s.guardCall(r, body)
}

// passAmbiguous lets a body go on that a server may read another way than we do, and in
// which nothing looks like a key. Operators should know: it may have been a call.
func (s *Stream) passAmbiguous(r *mcp.Request, size int) Action {
	if size > 0 {
		s.g.counts.add(s.label(), ambiguous)
		s.g.tellAmbiguous(s.policy, r.Defect)
	}
	return s.pass()
}

// tellAmbiguous says once of each policy that such a body passed, and what was wrong with
// the first.
func (g *Guard) tellAmbiguous(p *policy.Policy, defect string) {
	if !g.once.first(remark{topic: aboutDefect, name: p.Name}) {
		return
	}
	g.log("policy " + strconv.QuoteToASCII(p.Name) + ": " + defect + " and without a key passed unguarded; callonce_ambiguous_total counts them")
}

func defect(r *mcp.Request) string {
	if r.Offset < 0 {
		return r.Defect
	}
	return r.Defect + ", see byte " + itoa(r.Offset)
}

// routingMismatch compares the routing headers of MCP 2026-07-28 with the body and
// names the header that lies.
func (s *Stream) routingMismatch(r *mcp.Request) string {
	bad := ""
	for _, l := range s.head.lines {
		switch l[0] {
		case "mcp-method":
			if l[1] != mcp.ToolsCall {
				bad = "Mcp-Method"
			}
		case "mcp-name":
			if name, ok := mcp.RoutingName(l[1]); !ok || name != string(r.Name) {
				bad = "Mcp-Name"
			}
		}
	}
	return bad
}

// oversize decides on a body that is over the cap before its end.
func (s *Stream) oversize(prefix int) Action {
	p := s.policy
	if s.head.keyed || p.MustGuard {
		return s.refuseTooLarge()
	}
	noCall := s.head.namesOther()
	if !noCall && !p.HeaderKeysOnly {
		defer s.g.request.Release()
		body, err := s.host.RequestBody(prefix)
		if err != nil || !s.g.request.CallsNoTool(body) {
			return s.refuseTooLarge()
		}
	}
	return s.pass()
}
