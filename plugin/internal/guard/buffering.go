package guard

import "slices"

// buffering is what is known of the proxy: whether it can hold a request's headers
// while the body arrives. Where it cannot (Envoy without
// allow_on_headers_stop_iteration), pausing in headers stops everything, and the body
// callback never comes. Nothing tells which it is, so the first request finds out.
type buffering uint8

const (
	unknownYet buffering = iota
	buffered
	notBuffered
)

// bufferHeaders holds the request until its body is there, in the way that this proxy
// can.
func (s *Stream) bufferHeaders() Action {
	switch s.g.buffering {
	case buffered:
		return Pause
	case notBuffered:
		return s.goAhead()
	}
	s.sizeAtHead = s.host.TotalSize()
	s.wholeAtHead = s.head.length > 0 && s.sizeAtHead == uint64(s.head.size()+s.head.length)
	s.g.probing[s] = struct{}{}
	s.host.Wake()
	return Pause
}

// bodyCame notes that a body callback came while the headers were held.
func (s *Stream) bodyCame() {
	if s.isProbing() {
		clear(s.g.probing) // nothing is left to find out of any of them
		s.g.buffering = buffered
	}
}

func (s *Stream) isProbing() bool {
	if len(s.g.probing) == 0 {
		return false
	}
	_, is := s.g.probing[s]
	return is
}

// isLate reports whether the request waits for Look to let it go on.
func (s *Stream) isLate() bool {
	if len(s.g.late) == 0 {
		return false
	}
	_, is := s.g.late[s]
	return is
}

// Look is called outside any stream's callback, soon after Host.Wake and at every
// tick. A request of which more has arrived than its headers, and whose body callback
// has not come, is stuck: this proxy cannot hold headers.
func (g *Guard) Look() {
	g.look(looksPerWake)
	g.goOn()
}

// looksPerWake bounds the requests that are looked at because one more has come: with
// all of them at each, many that send no body would cost the square of their number. A
// tick looks at all.
const looksPerWake = 64

// look looks at so many requests, and at all where one shows what is true of all.
func (g *Guard) look(most int) {
	for s := range g.probing {
		if most--; most < 0 {
			break
		}
		s.look()
	}
	if g.buffering == notBuffered {
		for s := range g.probing {
			s.look()
		}
	}
}

// goOn lets those go on that wait for it outside of their callbacks.
func (g *Guard) goOn() {
	for s := range g.late {
		delete(g.late, s)
		if s.host.Enter() == nil {
			_ = s.host.Resume()
		}
	}
}

// later lets a request go on from outside its callbacks. Envoy 1.40 was seen to lose
// the whole body of a request that was resumed by Look, and then, in the course of
// that, let go on by its trailers.
func (s *Stream) later() Action {
	s.g.late[s] = struct{}{}
	s.host.Wake()
	return Pause
}

func (s *Stream) look() {
	if s.host.Enter() != nil {
		delete(s.g.probing, s)
		return
	}
	if s.lookOnce() == Continue {
		_ = s.host.Resume()
	}
}

// bodilessTicks is how many ticks a request of unknown length may wait for a sign
// whether this proxy holds headers. One without a body gives none.
const bodilessTicks = 2

func (s *Stream) lookOnce() (a Action) {
	defer s.contain(request, &a)
	// A filter ahead that waits too, such as this one in the same chain, may have let go the
	// headers when all had come: then nothing more does.
	if s.g.buffering == unknownYet && (s.wholeAtHead || s.host.TotalSize() > s.sizeAtHead) {
		s.g.buffering = notBuffered
		s.g.log("this proxy does not hold headers while a body is read: the server sees them before the call is judged. Set allow_on_headers_stop_iteration: true where the proxy has it")
	}
	bodiless := s.g.buffering == unknownYet && s.ticks >= bodilessTicks && s.head.length <= 0
	if s.g.buffering != notBuffered && !bodiless {
		return Pause
	}
	delete(s.g.probing, s)
	s.stuck = true
	return s.goAhead()
}

// goAhead lets the headers go before the body is judged. What a guarded call's headers
// need is done now, on every request that could turn out to be one: later edits are
// lost.
func (s *Stream) goAhead() Action {
	s.ahead = true
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
