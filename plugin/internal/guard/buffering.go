package guard

// buffering is what is known of the proxy: whether it can buffer a request's headers
// while the body arrives. Where it cannot (Envoy without
// allow_on_headers_stop_iteration), pausing in headers stops everything, and the body
// callback never comes. Nothing tells which it is, so the first request finds out.
type buffering uint8

const (
	unknownYet buffering = iota
	buffered
	notBuffered
)

// waitState is how a request waits until its body has been judged.
type waitState uint8

const (
	notWaiting waitState = iota // not yet, not any more, or in a proxy that is known to buffer
	probing                     // its headers are buffered, and nothing shows yet that its body can come meanwhile
	ahead                       // its headers went on before its body was judged
	stuck                       // they did, but only after Look found that nothing more would come
	late                        // judged by its trailers; it goes on outside of their callback
	waitStates
)

// waitEvent is what happens to a request that waits.
type waitEvent uint8

const (
	probes     waitEvent = iota // its headers are buffered by a proxy of which nothing is known
	goesAhead                   // its headers go on, since this proxy does not buffer them
	bodyComes                   // a callback of its body, or of its trailers, came
	foundStuck                  // more has arrived, or nothing will: see lookOnce
	endsLate                    // its trailers let it go on
	isOver                      // it goes on outside of its callbacks, it ended, or it is out of reach
	waitEvents
)

// waits says what each event makes of each state.
var waits = [waitStates][waitEvents]waitState{
	//          probes, goesAhead, bodyComes, foundStuck, endsLate, isOver
	notWaiting: {probing, ahead, notWaiting, notWaiting, notWaiting, notWaiting},
	probing:    {probing, probing, notWaiting, stuck, probing, notWaiting},
	ahead:      {ahead, ahead, ahead, ahead, ahead, notWaiting},
	stuck:      {stuck, stuck, stuck, stuck, late, notWaiting},
	late:       {late, late, late, late, late, notWaiting},
}

// wait is what is known of a request that waits.
type wait struct {
	state waitState
	size  uint64 // what had arrived when the headers came, in bytes
	whole bool   // and that was all of it
	ticks int    // since then, while probing
}

// wentAhead reports whether the headers are out of reach.
func (w *wait) wentAhead() bool { return w.state >= ahead }

// isLookedAt reports whether the guard will still look at the request outside of its callbacks.
func (w *wait) isLookedAt() bool { return w.state == probing || w.state == late }

// move takes an event, and keeps the guard's indexes of those that are probing or late.
func (s *Stream) move(ev waitEvent) waitState {
	from, to := s.wait.state, waits[s.wait.state][ev]
	if from == to {
		return to
	}
	switch s.wait.state = to; from {
	case probing:
		delete(s.g.probing, s)
	case late:
		delete(s.g.late, s)
	}
	switch to {
	case probing:
		s.g.probing[s] = struct{}{}
	case late:
		s.g.late[s] = struct{}{}
	}
	return to
}

// bufferHeaders buffers the request until its body is there, in the way that this proxy
// can.
func (s *Stream) bufferHeaders() Action {
	switch s.g.buffering {
	case buffered:
		return Pause
	case notBuffered:
		s.move(goesAhead)
		return s.goAhead()
	}
	s.wait.size = s.host.TotalSize()
	s.wait.whole = s.head.length > 0 && s.wait.size == uint64(s.head.size()+s.head.length)
	s.move(probes)
	s.host.Wake()
	return Pause
}

// bodyCame takes a callback of the body. One that comes while the headers are buffered
// shows what this proxy does, and nothing is left to find out of any other request.
func (s *Stream) bodyCame() {
	if s.wait.state != probing {
		return
	}
	s.g.buffering = buffered
	for other := range s.g.probing {
		other.move(bodyComes)
	}
}

// Look is called outside any stream's callback, soon after Host.Wake and at every
// tick. A request of which more has arrived than its headers, and whose body callback
// has not come, is stuck: this proxy does not buffer headers.
func (g *Guard) Look() {
	g.look(looksPerWake)
	g.goOn()
	g.lookReady()
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
		s.move(isOver)
		if s.host.Enter() == nil {
			_ = s.host.Resume()
		}
	}
}

// later lets a request go on that its trailers have ended. One that had been stuck goes on
// outside of their callback: Envoy 1.40 was seen to lose the whole body of a request that
// was resumed by Look, and then, in the course of that, let go on by its trailers.
func (s *Stream) later() Action {
	if s.move(endsLate) != late {
		return Continue
	}
	s.host.Wake()
	return Pause
}

func (s *Stream) look() {
	if s.host.Enter() != nil {
		s.move(isOver)
		return
	}
	if s.lookOnce() == Continue {
		_ = s.host.Resume()
	}
}

// bodilessTicks is how many ticks a request of unknown length may wait for a sign
// whether this proxy buffers headers. One without a body gives none.
const bodilessTicks = 2

func (s *Stream) lookOnce() (a Action) {
	defer s.contain(request, &a)
	// A filter ahead that waits too, such as this one in the same chain, may have let go the
	// headers when all had come: then nothing more does.
	if s.g.buffering == unknownYet && (s.wait.whole || s.host.TotalSize() > s.wait.size) {
		s.g.buffering = notBuffered
		s.g.log("this proxy does not hold headers while a body is read: the server sees them before the call is judged. Set allow_on_headers_stop_iteration: true where the proxy has it")
	}
	bodiless := s.g.buffering == unknownYet && s.wait.ticks >= bodilessTicks && s.head.length <= 0
	if s.g.buffering != notBuffered && !bodiless {
		return Pause
	}
	s.move(foundStuck)
	return s.goAhead()
}
