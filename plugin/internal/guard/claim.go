package guard

import (
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
	"github.com/callonce/callonce/plugin/internal/scratch"
)

// intent is the claim that the ledger is asked with.
func (s *Stream) intent(r *mcp.Request, scope scoped, id, fingerprint [32]byte, derived bool) ledger.Claim {
	p, tool := s.policy, s.call.tool
	c := ledger.Claim{
		ID:           id,
		Fingerprint:  fingerprint,
		Policy:       s.g.number(p),
		Principal:    scope.principal,
		Scope:        scope.scope,
		Session:      sketch(s.call.session),
		Request:      sketch(string(s.call.id)),
		Tool:         s.g.numbers.tools[tool],
		RetryUnknown: tool.RetryUnknown,
		TakesTasks:   r.TakesTasks(),
		Budget:       budget(p),
		Limits:       limits(p),
		Terms:        ledger.Terms{TTL: tool.TTL, LeaseTTL: p.Lease},
	}
	if p.Operators.Path != "" && s.g.etcd != nil {
		c.Shown = s.g.shown(scope)
	}
	if derived {
		c.Terms.Window = tool.Window
	}
	s.g.buf = mcp.AppendID(s.g.buf[:0], s.call.id)
	s.call.mark = ledger.Cancellation{Scope: c.Scope, Session: c.Session, Request: sketch(view(s.g.buf))}
	s.g.buf = scratch.Keep(s.g.buf)
	return c
}

func budget(p *policy.Policy) ledger.Budget {
	return ledger.Budget{Ring: p.Index, Bytes: p.Limits.StoredBytes}
}

func limits(p *policy.Policy) ledger.Limits {
	l := &p.Limits
	return ledger.Limits{
		Entries: l.Entries, EntriesPerPrincipal: l.EntriesPerPrincipal, EntriesPerScope: l.EntriesPerScope,
		InFlight: l.InFlight, InFlightPerPrincipal: l.InFlightPerPrincipal, InFlightPerScope: l.InFlightPerScope,
		TombstonesPerScope: l.TombstonesPerScope, OnFullEvict: l.Evict,
	}
}

// claim asks the ledger.
func (s *Stream) claim(c ledger.Claim) Action {
	s.stage = asking
	s.g.enter(s)
	s.mayWait(&c)
	answer, now := s.g.store.Ask(s.token, c)
	if !now {
		s.g.waiting[s.token] = s
		return Pause
	}
	return s.act(answer)
}

// answered takes an answer that came later, in a callback that is not the stream's.
func (s *Stream) answered(a ledger.Answer) {
	w := s.waiter
	if w != nil {
		w.asking = false
	}
	if s.host.Enter() != nil {
		// Gone, though nothing has said so: the call is not sent.
		if a.Verdict == ledger.First {
			s.g.store.Settle(a.Lease, ledger.Outcome{Event: ledger.Release})
		}
		s.endWait(waitLeft)
	} else if s.actLate(a) == Continue {
		_ = s.host.Resume()
	}
	if w != nil && w.key != nil && !w.held {
		s.g.lookAt(w.key)
	}
}

func (s *Stream) actLate(a ledger.Answer) (act Action) {
	defer s.contain(request, &act)
	return s.act(a)
}

// act does what the ledger's answer asks for.
func (s *Stream) act(a ledger.Answer) Action {
	if s.claimedAhead(a) {
		s.endWait(waitRefused)
		return s.guardedAhead()
	}
	if s.waitsOn(a) {
		return Pause
	}
	waited := s.waiter != nil && s.waiter.held // so it was seen in flight
	s.endWait(waitEnds(a.Verdict))
	// Not sooner: until here an instance ahead may have said which key it has claimed.
	s.state(stateKey, s.call.operation)
	s.repeated(a)
	switch {
	case a.Verdict == ledger.First:
		return s.forward(a.Lease)
	case a.Verdict == ledger.Replay:
		if a.Reply.Elsewhere {
			a.Reply = s.elsewhere()
		}
		return s.replay(a.Reply)
	case a.Verdict == ledger.RefusedUnavailable && s.policy.ForwardOnError && !waited:
		return s.forwardUnguarded()
	case a.Verdict == ledger.RefusedInFlight && paced(s.call.tool):
		running := mcp.InFlight
		running.RetryAfter = s.comeBack(a.Prior)
		return s.refuse(&running, "")
	case a.Verdict == ledger.RefusedCapacity:
		full := mcp.Capacity
		full.RetryAfter = max(int((a.RetryAfter+time.Second-1)/time.Second), full.RetryAfter)
		return s.refuse(&full, "")
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
	ledger.RefusedUnavailable:   &mcp.Unavailable,
}
