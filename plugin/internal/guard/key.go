package guard

import (
	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
	"github.com/callonce/callonce/plugin/internal/scratch"
)

// guardCall takes the entry of the tool that is called (policy), and the key. What is to be
// guarded goes on to be identified and claimed.
func (s *Stream) guardCall(r *mcp.Request, body []byte) Action {
	s.call.isCall = true
	s.call.tool = s.policy.Tool(string(r.Name))
	guard := s.call.tool.Guard
	if guard == policy.GuardOff {
		return s.callOfUnguardedTool(r)
	}
	if guard.Must() || s.head.keyed || r.Keyed {
		// Where a key on a call that nothing guards is refused, a key asks for the guard.
		if hint := s.hint(r); hint != mcp.NoHint && !(s.policy.RefuseStray && (s.head.keyed || r.Keyed)) {
			return s.hinted(r, body, hint)
		}
	}
	key, refusal := s.findKey(r)
	switch {
	case refusal != nil:
		return s.refuseCall(r, refusal, "")
	case key == nil && guard == policy.GuardOptional:
		return s.keylessCall(r, body)
	case key == nil && guard == policy.GuardRequired:
		return s.callLacksKey(r)
	case key == nil && s.policy.Forwards() && s.keyTakenAhead():
		// The call must go on with the key that it has, and not with a derived one.
		return s.guardedAhead()
	}
	return s.identify(r, body, key)
}

// callOfUnguardedTool is a call of a tool whose guard is off.
func (s *Stream) callOfUnguardedTool(r *mcp.Request) Action {
	if s.policy.RefuseStray && (s.head.keyed || r.Keyed) {
		return s.refuse(&mcp.Unsupported, strayDetail)
	}
	return s.unguarded(r)
}

const strayDetail = "an idempotency key is for guarded calls of tools only"

// callLacksKey is a call of a tool that requires a key, without one.
func (s *Stream) callLacksKey(r *mcp.Request) Action {
	if s.keyTakenAhead() {
		return s.guardedAhead()
	}
	return s.refuseCall(r, &mcp.KeyRequired, "it is read from "+s.policy.KeySources())
}

// identify works out whose call it is and which (scope, fingerprint, stored id), and claims
// it. key is nil for a derived one.
func (s *Stream) identify(r *mcp.Request, body, key []byte) Action {
	s.call.guarded, s.call.derived = true, key == nil
	scope, refusal, detail := s.findScope()
	if refusal != nil {
		s.publishCall(r)
		return s.refuse(refusal, detail)
	}
	if s.policy.ForwardKey != "" && s.wait.wentAhead() {
		if s.g.buffering != notBuffered {
			return s.refuse(&mcp.Unavailable, "") // gone for want of a sign: the next time there is one
		}
		return s.refuse(&mcp.NeverBuffered, "")
	}
	fingerprint := s.fingerprint(r, key == nil)
	id := s.storedID(r, scope, key, fingerprint, false)
	s.call.operation = hex16(id[:8])
	if s.policy.Operators.Callers {
		s.call.statusPath = s.ownPath(&id)
	}
	s.publish(r, scope, fingerprint)
	if defect := s.prepare(r, body, key, &id); defect != "" {
		return s.refuse(&mcp.Unsupported, defect)
	}
	c := s.intent(r, scope, id, fingerprint, key == nil)
	s.call.root = s.root(r, scope, key, c)
	return s.claim(c)
}

// fingerprint is what a repeat is compared by.
func (s *Stream) fingerprint(r *mcp.Request, derived bool) [32]byte {
	sum, buf := r.Fingerprint(s.g.buf, s.shape(derived))
	s.g.buf = scratch.Keep(buf)
	return sum
}

// refuseCall refuses a call for its key. Whoever reads the log wants to know which calls
// are refused.
func (s *Stream) refuseCall(r *mcp.Request, f *mcp.Refusal, detail string) Action {
	s.publishUnguarded(r)
	return s.refuse(f, detail)
}

// unguarded lets a call go on that nothing asks to guard.
func (s *Stream) unguarded(r *mcp.Request) Action {
	if s.policy.LogUnkeyed {
		s.publishUnguarded(r)
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
		s.publishUnguarded(r)
	}
	s.call.body = r.AppendStripped(make([]byte, 0, len(body)), body)
	if !s.editBody() {
		return s.refuse(&mcp.Unavailable, "")
	}
	return s.pass()
}

// findKey gives the key, nil for none. All key sources that carry one must agree.
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
