package guard

import (
	"github.com/callonce/callonce/plugin/ledger"
	"github.com/callonce/callonce/plugin/mcp"
	"github.com/callonce/callonce/plugin/policy"
)

// strayKey is a key header on something that is no tool call. Many clients can only
// set a header on all their requests, so it passes unless the policy says otherwise.
func (s *Stream) strayKey() Action {
	s.g.counts.add(s.label(), strayKeys, "")
	if s.policy.RefuseStray {
		return s.refuse(&mcp.Unsupported, "an idempotency key is for tools/call only")
	}
	return s.pass()
}

// judge decides on a body read whole (rules 4 to 7 of the contract's order).
func (s *Stream) judge(body []byte) Action {
	r := &s.g.request
	r.Read(body, s.g.places[s.policy])
	s.call.id = append([]byte(nil), r.ID...)
	if len(r.ID) == 0 {
		s.call.id = nil
	}
	switch r.Kind {
	case mcp.Ambiguous:
		if s.policy == misnamed {
			return s.refuseMisnamed()
		}
		if s.head.keyed || r.Keyed || s.policy.MustGuard {
			return s.refuse(&mcp.Unsupported, defect(r))
		}
		return s.pass()
	case mcp.Other:
		if s.head.keyed {
			return s.strayKey()
		}
		return s.pass()
	}
	if h := s.routingMismatch(r); h != "" {
		return s.refuseMismatch(h)
	}
	if s.policy == misnamed {
		return s.refuseMisnamed()
	}
	return s.guardCall(r)
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
			if l[1] != toolsCall {
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

// guardCall takes the tool's entry, then key, identity and fingerprint, and asks the
// ledger.
func (s *Stream) guardCall(r *mcp.Request) Action {
	s.call.tool = s.policy.Tool(string(r.Name))
	if s.call.tool.Guard == policy.GuardOff {
		return s.pass()
	}
	key, refusal := s.findKey(r)
	if refusal != nil {
		return s.refuse(refusal, "")
	}
	if key == nil && s.call.tool.Guard == policy.GuardOptional {
		return s.pass()
	}
	if key == nil && s.call.tool.Guard == policy.GuardRequired {
		return s.refuse(&mcp.KeyRequired, "")
	}
	s.call.guarded = true
	place, refusal, detail := s.findScope()
	if refusal != nil {
		return s.refuse(refusal, detail)
	}
	fingerprint, buf := r.Fingerprint(s.g.buf, mcp.Shape{BindID: s.policy.BindRequestID, Exclude: s.call.tool.Exclude})
	s.g.buf = buf
	id := s.storedID(r, place, key, fingerprint)
	s.call.operation = hex16(id[:8])
	s.host.SetState("callonce.key_hash", s.call.operation)
	return s.claim(ledger.Claim{
		ID:          id,
		Fingerprint: fingerprint,
		Principal:   place.principal,
		Scope:       place.scope,
		Budget:      ledger.Budget{Ring: s.policy.Index, Bytes: s.policy.Limits.StoredBytes},
		Terms:       s.terms(key == nil),
	})
}

func (s *Stream) terms(derived bool) ledger.Terms {
	t := ledger.Terms{TTL: s.call.tool.TTL}
	if derived {
		t.Window = s.call.tool.Window
	}
	return t
}

// oversize decides on a body that is over the cap before its end.
func (s *Stream) oversize(prefix int) Action {
	p := s.policy
	if s.head.keyed || p.MustGuard {
		return s.refuseTooLarge()
	}
	noCall := s.head.mcpMethod != "" && s.head.mcpMethod != toolsCall
	if !noCall && !p.HeaderKeysOnly {
		body, err := s.host.RequestBody(prefix)
		if err != nil || !s.g.request.CallsNoTool(body) {
			return s.refuseTooLarge()
		}
	}
	return s.pass()
}

// findKey gives the key, nil for none. All places that carry one must agree.
func (s *Stream) findKey(r *mcp.Request) ([]byte, *mcp.Refusal) {
	key, ok := r.Key()
	if !ok {
		return nil, &mcp.KeyInvalid
	}
	for i := range s.policy.Keys {
		name := s.policy.Keys[i].Header
		if name == "" {
			continue
		}
		line, lines := s.head.one(name)
		if lines == 0 {
			continue
		}
		k, ok := mcp.HeaderKey(line)
		if lines > 1 || !ok || key != nil && string(key) != k {
			return nil, &mcp.KeyInvalid
		}
		key = []byte(k)
	}
	return key, nil
}

// claim asks the ledger.
func (s *Stream) claim(c ledger.Claim) Action {
	s.stage = asking
	answer, now := s.g.store.Ask(s.token, c)
	if !now {
		s.g.waiting[s.token] = s
		return Pause
	}
	return s.act(answer)
}

// answered takes an answer that came later, in a callback that is not the stream's.
func (s *Stream) answered(a ledger.Answer) {
	if s.host.Enter() == nil && s.actLate(a) == Continue {
		_ = s.host.Resume()
	}
}

func (s *Stream) actLate(a ledger.Answer) (act Action) {
	defer s.contain(&act)
	return s.act(a)
}

// act does what the ledger's answer asks for.
func (s *Stream) act(a ledger.Answer) Action {
	switch a.Verdict {
	case ledger.First:
		return s.forward(a.Hold)
	case ledger.Replay:
		return s.replay(a.Reply)
	default:
		return s.refuse(verdicts[a.Verdict], "")
	}
}

// verdicts says which refusal each of the ledger's verdicts is.
var verdicts = map[ledger.Verdict]*mcp.Refusal{
	ledger.RefusedInFlight:      &mcp.InFlight,
	ledger.RefusedConflict:      &mcp.Conflict,
	ledger.RefusedUnknown:       &mcp.OutcomeUnknown,
	ledger.RefusedNotReplayable: &mcp.NotReplayable,
	ledger.RefusedCapacity:      &mcp.Capacity,
	ledger.RefusedUnavailable:   &mcp.Unavailable,
}

// forward sends a claimed call on. The mesh must not repeat it, and its reply must
// be readable.
func (s *Stream) forward(h ledger.Hold) Action {
	s.hold, s.stage = h, forwarded
	if !s.ahead && !s.editHeaders() {
		// Nothing was sent yet: better no call than one that may run twice.
		s.settle(ledger.Outcome{Event: ledger.Release})
		return s.refuse(&mcp.Unavailable, "")
	}
	s.g.counts.add(s.label(), meshRetriesOff, "")
	s.outcome(outFirst)
	s.reply = readAlong{cap: s.policy.Limits.ReplyBytes}
	s.head = head{}
	return Continue
}

// replay answers with the first answer, under the asking request's id.
func (s *Stream) replay(r ledger.Reply) Action {
	s.outcome(outReplay)
	body := mcp.AppendReplay(nil, r.Message, r.IDStart, r.IDEnd, s.call.id)
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
