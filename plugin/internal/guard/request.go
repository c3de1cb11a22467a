package guard

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
	"github.com/callonce/callonce/plugin/internal/scratch"
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

// judge decides on a body read whole (rules 4 to 7 of the contract's order).
func (s *Stream) judge(body []byte) Action {
	r := &s.g.request
	defer r.Release()
	places := s.g.keyPointers(s.policy)
	r.Read(body, places)
	s.call.id = append(s.call.id[:0], r.ID...)
	if c := s.head.charset; c == mcp.OtherCharset || c == mcp.LikeASCII && !mcp.IsASCII(body) {
		r.Doubt("a body whose charset is not UTF-8", body, places)
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
	if g.unkeyed[p.Index] {
		return
	}
	g.unkeyed[p.Index] = true
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
func (s *Stream) guardCall(r *mcp.Request, body []byte) Action {
	s.call.isCall = true
	s.call.tool = s.policy.Tool(string(r.Name))
	if s.call.tool.Guard == policy.GuardOff {
		if s.policy.RefuseStray && (s.head.keyed || r.Keyed) {
			return s.refuse(&mcp.Unsupported, strayDetail)
		}
		return s.unguarded(r)
	}
	key, refusal := s.findKey(r)
	if refusal != nil {
		return s.refuseCall(r, refusal, "")
	}
	if key == nil && s.call.tool.Guard == policy.GuardOptional {
		return s.keylessCall(r, body)
	}
	if key == nil && s.call.tool.Guard == policy.GuardRequired {
		if s.keyTakenAhead() {
			return s.guardedAhead()
		}
		return s.refuseCall(r, &mcp.KeyRequired, "it is read from "+s.policy.KeySources())
	}
	if key == nil && s.policy.ForwardKey != "" && s.keyTakenAhead() {
		// What would be derived must not go on in place of the key that does.
		return s.guardedAhead()
	}
	s.call.guarded, s.call.derived = true, key == nil
	scope, refusal, detail := s.findScope()
	if refusal != nil {
		s.publishCall(r)
		return s.refuse(refusal, detail)
	}
	if s.policy.ForwardKey != "" && s.ahead {
		if s.g.buffering != notBuffered {
			return s.refuse(&mcp.Unavailable, "") // gone for want of a sign: the next time there is one
		}
		return s.refuse(&mcp.NeverBuffered, "")
	}
	fingerprint := s.fingerprint(r, key == nil)
	id := s.storedID(r, scope, key, fingerprint)
	s.call.operation = hex16(id[:8])
	s.publish(r, scope, fingerprint)
	s.prepare(r, body, key, &id)
	return s.claim(s.intent(r, scope, id, fingerprint, key == nil))
}

const strayDetail = "an idempotency key is for guarded calls of tools only"

// fingerprint is what a repeat is compared by. A derived key never binds the request's
// id: every attempt has another one, and each would be a key of its own.
func (s *Stream) fingerprint(r *mcp.Request, derived bool) [32]byte {
	sum, buf := r.Fingerprint(s.g.buf, mcp.Shape{
		BindID: s.policy.BindRequestID && !derived, Exclude: s.call.tool.Exclude, Round: s.call.tool.Round,
	})
	s.g.buf = scratch.Keep(buf)
	return sum
}

// prepare works out what goes on to the server, while the call can still be read.
func (s *Stream) prepare(r *mcp.Request, body, key []byte, id *[32]byte) {
	if s.policy.ForwardKey != "" {
		s.call.forward = string(key)
		if key == nil {
			s.call.forward = hex.EncodeToString(id[:])
		}
	}
	if s.policy.Strip && r.KeyInArguments() {
		s.call.body = r.AppendStripped(make([]byte, 0, len(body)), body)
	}
}

// intent is the claim that the ledger is asked with.
func (s *Stream) intent(r *mcp.Request, scope scoped, id, fingerprint [32]byte, derived bool) ledger.Claim {
	p, tool := s.policy, s.call.tool
	c := ledger.Claim{
		ID:           id,
		Fingerprint:  fingerprint,
		Policy:       p.Name,
		Principal:    scope.principal,
		Scope:        scope.scope,
		Session:      sketch(s.call.session),
		Request:      sketch(string(s.call.id)),
		RetryUnknown: tool.RetryUnknown,
		TakesTasks:   r.TakesTasks(),
		Budget:       budget(p),
		Limits:       limits(p),
		Terms:        ledger.Terms{TTL: tool.TTL, LeaseTTL: p.Lease},
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

// refuseCall refuses a call for its key. Whoever reads the log wants to know which calls
// are refused.
func (s *Stream) refuseCall(r *mcp.Request, f *mcp.Refusal, detail string) Action {
	if !s.publishKeyless(r) {
		s.publishCall(r)
	}
	return s.refuse(f, detail)
}

// unguarded lets a call go on that nothing asks to guard.
func (s *Stream) unguarded(r *mcp.Request) Action {
	if s.policy.LogUnkeyed {
		s.publishKeyless(r)
	}
	return s.pass()
}

// keylessCall lets a call go on that carries no key and needs none. An argument for a key
// that is there without one, null or empty, is no more the server's than a key is.
func (s *Stream) keylessCall(r *mcp.Request, body []byte) Action {
	if !s.policy.Strip || s.policy.Observe || !r.KeyInArguments() {
		return s.unguarded(r)
	}
	if s.policy.LogUnkeyed {
		s.publishKeyless(r)
	}
	s.call.body = r.AppendStripped(make([]byte, 0, len(body)), body)
	if !s.editBody() {
		return s.refuse(&mcp.Unavailable, "")
	}
	return s.pass()
}

// oversize decides on a body that is over the cap before its end.
func (s *Stream) oversize(prefix int) Action {
	p := s.policy
	if s.head.keyed || p.MustGuard {
		return s.refuseTooLarge()
	}
	noCall := s.head.mcpMethod != "" && s.head.mcpMethod != toolsCall
	if !noCall && !p.HeaderKeysOnly {
		defer s.g.request.Release()
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
		key = append(s.g.key[:0], k...)
		s.g.key = key
	}
	if key != nil && s.policy.ForwardKey != "" && !visible(key) {
		return nil, &mcp.KeyInvalid // it could not go on in a header
	}
	return key, nil
}

func visible(key []byte) bool {
	for _, c := range key {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// claim asks the ledger.
func (s *Stream) claim(c ledger.Claim) Action {
	s.stage = asking
	s.g.enter(s)
	answer, now := s.g.store.Ask(s.token, c)
	if !now {
		s.g.waiting[s.token] = s
		return Pause
	}
	return s.act(answer)
}

// answered takes an answer that came later, in a callback that is not the stream's.
func (s *Stream) answered(a ledger.Answer) {
	if s.host.Enter() != nil {
		// Gone, though nothing has said so: the call is not sent.
		if a.Verdict == ledger.First {
			s.g.store.Settle(a.Lease, ledger.Outcome{Event: ledger.Release})
		}
		return
	}
	if s.actLate(a) == Continue {
		_ = s.host.Resume()
	}
}

func (s *Stream) actLate(a ledger.Answer) (act Action) {
	defer s.contain(&act)
	return s.act(a)
}

// act does what the ledger's answer asks for.
func (s *Stream) act(a ledger.Answer) Action {
	if s.claimedAhead(a) {
		return s.guardedAhead()
	}
	// Not sooner: until here an instance ahead may have said which key it holds.
	s.state(stateKey, s.call.operation)
	s.repeated(a)
	switch {
	case a.Verdict == ledger.First:
		return s.forward(a.Lease)
	case a.Verdict == ledger.Replay:
		return s.replay(a.Reply)
	case a.Verdict == ledger.RefusedUnavailable && s.policy.ForwardOnError:
		return s.forwardUnguarded()
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

// forward sends a claimed call on. The mesh must not repeat it, and its reply must
// be readable.
func (s *Stream) forward(h ledger.Lease) Action {
	s.lease, s.stage = h, forwarded
	s.reply = readAlong{cap: s.policy.Limits.ReplyBytes}
	if !s.policy.Observe {
		if !s.edit() {
			// Nothing was sent yet: better no call than one that may run twice.
			s.settle(ledger.Outcome{Event: ledger.Release})
			return s.refuse(&mcp.Unavailable, "")
		}
		s.g.counts.add(s.label(), meshRetriesOff)
	}
	s.outcome(outFirst)
	if !s.call.derived && !s.policy.Observe && s.takesKeysOut() {
		s.state(stateTaken, "true")
	}
	s.head = head{}
	s.call.id, s.call.body, s.call.session = mcp.RetainID(s.call.id), nil, ""
	return Continue
}

// forwardUnguarded sends a call on that the store cannot remember, because the policy
// says so.
func (s *Stream) forwardUnguarded() Action {
	s.g.log("the store cannot answer: a call went on unguarded, as on_store_error says")
	if !s.policy.Observe && !s.edit() {
		return s.refuse(&mcp.Unavailable, "")
	}
	s.outcome(outForwarded)
	return s.pass()
}

// edit makes the changes to a call that goes on.
func (s *Stream) edit() bool {
	if !s.ahead && !(s.editHeaders() && s.dropKeys()) {
		return false
	}
	if s.call.forward != "" && s.host.SetRequestHeader(s.policy.ForwardKey, s.call.forward) != nil {
		return false
	}
	return s.editBody()
}

// editBody puts the body that goes on, if it is another, in place of the one that came.
func (s *Stream) editBody() bool {
	if s.call.body == nil {
		return true
	}
	if s.host.ReplaceRequestBody(s.call.body) != nil {
		return false
	}
	// The old length would make the proxy wait for bytes that never come. Where the headers
	// have gone, they went without one.
	return s.ahead || s.host.SetRequestHeader("content-length", itoa(len(s.call.body))) == nil
}

// replay answers with the first answer, under the asking request's id.
func (s *Stream) replay(r ledger.Reply) Action {
	s.outcome(outReplay)
	if s.policy.Observe {
		return s.pass()
	}
	body := mcp.AppendReplay(s.g.buf[:0], r.Message, r.IDStart, r.IDEnd, s.call.id)
	s.g.buf = scratch.Keep(body)
	if s.policy.MarkMeta {
		body = s.g.response.AppendMarked(nil, body)
		s.g.response.Release()
	}
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
