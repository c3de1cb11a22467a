package guard

import (
	"encoding/hex"
	"slices"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// prepare works out what goes on to the server, while the call can still be read. A
// defect says why that cannot be told.
func (s *Stream) prepare(r *mcp.Request, body, key []byte, id *[32]byte) (defect string) {
	if s.policy.Forwards() && key == nil {
		var digits [64]byte
		hex.Encode(digits[:], id[:])
		key = digits[:]
	}
	if s.policy.ForwardKey != "" {
		s.call.forward = string(key)
	}
	edit := mcp.Edit{Strip: s.policy.Strip && r.KeyInArguments(), Place: s.policy.ForwardPlace, Key: key}
	if !edit.Strip && edit.Place.Name == "" {
		if s.call.tool.Detach {
			s.call.body = append(make([]byte, 0, len(body)), body...)
		}
		return ""
	}
	s.call.body, defect = r.AppendEdited(make([]byte, 0, len(body)+len(key)+len(edit.Place.Name)+placeOverhead), body, edit)
	return defect
}

// placeOverhead is what a key takes in a body beside its text and the name of its place:
// quotes, brackets, "arguments", unless the text must be escaped.
const placeOverhead = 32

// forward sends a claimed call on. The mesh must not repeat it, and its reply must
// be readable.
func (s *Stream) forward(h ledger.Lease) Action {
	if s.detaches() {
		return s.detach(h)
	}
	s.lease, s.stage = h, forwarded
	s.reply = readAlong{cap: s.policy.Limits.ReplyBytes}
	if !s.policy.Observe {
		if !s.edit() {
			// Nothing was sent yet: better no call than one that may run twice.
			s.settle(ledger.Outcome{Event: ledger.Release}, byProxyFault)
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
	if !s.wait.wentAhead() && !(s.editHeaders() && s.dropKeys()) {
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
	return s.wait.wentAhead() || s.host.SetRequestHeader("content-length", itoa(len(s.call.body))) == nil
}

// goAhead lets the headers go before the body is judged. What a guarded call's headers
// need is done now, on every request that could turn out to be one: later edits are
// lost.
func (s *Stream) goAhead() Action {
	s.g.counts.add("", headersNotBuffered)
	if s.policy.Observe {
		return Continue
	}
	if !s.editHeaders() || s.policy.EditsBodies() && (!s.dropKeys() || s.host.RemoveRequestHeader("content-length") != nil) {
		return s.refuseUnread(unreadable)
	}
	return Continue
}

// editHeaders makes sure that the mesh does not repeat the call, and that its reply
// can be read. What is so already is not asked for.
func (s *Stream) editHeaders() bool {
	h := &s.head
	if !(h.retries == 1 && h.retryFor == "0") && s.host.SetRequestHeader("x-envoy-max-retries", "0") != nil {
		return false
	}
	return !h.codings || s.host.RemoveRequestHeader("accept-encoding") == nil
}

// dropKeys takes out the headers with a key that the server is not to get: whoever passes
// the call on must not believe that it may repeat it.
func (s *Stream) dropKeys() bool {
	for _, l := range s.head.lines {
		if slices.Contains(s.policy.Dropped, l[0]) && s.host.RemoveRequestHeader(l[0]) != nil {
			return false
		}
	}
	return true
}
