package guard

import "slices"

// goAhead lets the headers go before the body is judged. What a guarded call's headers
// need is done now, on every request that could turn out to be one: later edits are
// lost.
func (s *Stream) goAhead() Action {
	s.g.counts.add("", headersNotBuffered)
	if s.policy.Observe {
		return Continue
	}
	if !s.editHeaders() || s.policy.Strip && (!s.dropKeys() || s.host.RemoveRequestHeader("content-length") != nil) {
		return s.refuseUnread(unreadable)
	}
	return Continue
}

// editHeaders makes sure that the mesh does not repeat the call, and that its reply
// can be read.
func (s *Stream) editHeaders() bool {
	return s.host.SetRequestHeader("x-envoy-max-retries", "0") == nil && s.host.RemoveRequestHeader("accept-encoding") == nil
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
