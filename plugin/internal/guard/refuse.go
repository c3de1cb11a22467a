package guard

import (
	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// What is wrong with a request whose body was not, or not wholly, read.
const (
	notJSON         = "a POST whose Content-Type is not application/json"
	contentEncoding = "a body with a Content-Encoding"
	unreadable      = "a request that the proxy could not hand over"
)

// refuse answers with one of the refusals. detail says more precisely what was wrong
// and contains nothing that the caller sent. A policy that observes only counts it.
func (s *Stream) refuse(f *mcp.Refusal, detail string) Action {
	s.outcome(outcomes[f.Type])
	s.state(stateRefusal, f.Type)
	s.g.counts.add(s.label(), refusals, f.Type)
	if s.policy.Observe {
		return s.pass()
	}
	return s.tell(f, detail)
}

// tell answers with a refusal.
func (s *Stream) tell(f *mcp.Refusal, detail string) Action {
	statusTool := ""
	if s.call.tool != nil {
		statusTool = OneLine(s.call.tool.StatusTool, len(s.call.tool.StatusTool))
		if a := s.call.tool.StatusArgument; statusTool != "" && a != "" {
			statusTool += " with the same " + OneLine(a, len(a)) // whose value the caller has
		}
	}
	detail = OneLine(detail, len(detail))
	named := f.In(dialect(s.policy.Preset))
	if s.call.derived {
		named = named.WithoutKey()
	}
	if statusTool != "" && s.policy.Preset == policy.Derived {
		named = named.AskInstead()
	}
	if s.call.statusPath != "" && verdictsAsked[named.Code] {
		named.StatusPath = s.call.statusPath
	}
	headers := [][2]string{{"content-type", "application/json"}}
	if named.RetryAfter > 0 {
		headers = append(headers, [2]string{"retry-after", itoa(named.RetryAfter)})
	}
	status, shape := f.Status, named.AppendError
	if s.call.isCall && s.policy.Reply != policy.ReplyHTTP {
		status = 200
		if s.policy.Reply == policy.ReplyToolResult {
			shape = named.AppendToolResult
		}
	}
	id := s.call.id
	if !mcp.IsToken(id) {
		id = nil // a fault of our own, after the call went on
	}
	return s.answer(status, headers, shape(nil, id, s.call.operation, statusTool, detail))
}

// dialect says whose names the callers of a preset expect.
func dialect(p policy.Preset) mcp.Dialect {
	switch p {
	case policy.SEP3182:
		return mcp.SEP3182
	case policy.Forward:
		return mcp.KeyReused
	}
	return mcp.Own
}

func (s *Stream) refuseUnread(detail string) Action { return s.refuse(&mcp.Unsupported, detail) }

func (s *Stream) refuseTooLarge() Action {
	return s.refuse(&mcp.TooLarge, "a body of more than "+itoa(s.policy.MaxRequestBytes)+" bytes")
}

// refuseCrowded answers a request that would have to wait. More of them would end the
// worker's VM, and with it what all others wait for.
func (s *Stream) refuseCrowded() Action {
	if s.g.once.first(remark{topic: aboutMemory}) {
		s.g.log("the headers of requests whose bodies do not come take all the memory that is for them: others are refused while they do")
	}
	return s.refuse(&mcp.Unavailable, "")
}

func (s *Stream) refuseMisnamed() Action { return s.refuse(&mcp.Misrouted, "") }

// refuseFault answers for a fault of our own. It must not fail itself.
func (s *Stream) refuseFault() Action {
	return orNothing(func() Action { return s.refuse(&mcp.Unavailable, "") })
}

// orNothing answers after a fault of our own. Where that fails too nothing goes on.
func orNothing(answer func() Action) (a Action) {
	defer func() {
		if recover() != nil {
			a = Pause
		}
	}()
	return answer()
}

// headerMismatch is the reason, as a label value, of the refusal that is the protocol's own.
const headerMismatch = "header_mismatch"

func (s *Stream) refuseMismatch(header string) Action {
	s.outcome(outRejected)
	s.g.counts.add(s.label(), refusals, headerMismatch)
	if s.policy.Observe {
		return s.pass()
	}
	return s.answer(400, [][2]string{{"content-type", "application/json"}},
		mcp.AppendHeaderMismatch(nil, s.call.id, header))
}
