package guard

import "github.com/callonce/callonce/plugin/mcp"

// What is wrong with a request whose body was not, or not wholly, read.
const (
	notJSON         = "a POST whose Content-Type is not application/json"
	contentEncoding = "a body with a Content-Encoding"
	unreadable      = "a request that the proxy could not hand over"
)

// refuse answers with one of the refusals. detail says more precisely what was wrong
// and holds nothing that the caller sent.
func (s *Stream) refuse(f *mcp.Refusal, detail string) Action {
	s.outcome(outcomes[f.Type])
	status := ""
	if s.call.tool != nil {
		status = s.call.tool.StatusTool
	}
	headers := [][2]string{{"content-type", "application/json"}}
	if f.RetryAfter > 0 {
		headers = append(headers, [2]string{"retry-after", itoa(f.RetryAfter)})
	}
	return s.answer(f.Status, headers, f.AppendError(nil, s.call.id, s.call.operation, status, detail))
}

func (s *Stream) refuseUnread(detail string) Action { return s.refuse(&mcp.Unsupported, detail) }

func (s *Stream) refuseTooLarge() Action {
	return s.refuse(&mcp.TooLarge, "a body of more than "+itoa(s.policy.MaxRequestBytes)+" bytes")
}

func (s *Stream) refuseMisnamed() Action {
	s.g.log("the route's metadata callonce/policy names a policy that does not exist: its calls are refused")
	return s.refuse(&mcp.Unavailable, "")
}

// refuseFault answers for a fault of our own. It must not fail itself.
func (s *Stream) refuseFault() (a Action) {
	defer func() {
		if recover() != nil {
			a = Pause
		}
	}()
	return s.refuse(&mcp.Unavailable, "")
}

func (s *Stream) refuseMismatch(header string) Action {
	s.outcome(outRejected)
	return s.answer(400, [][2]string{{"content-type", "application/json"}},
		mcp.AppendHeaderMismatch(nil, s.call.id, header))
}
