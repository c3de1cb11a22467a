package guard

import (
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// stage is where a request stands.
type stage uint8

const (
	begun      stage = iota
	passing          // none of our business, or not any more
	reading          // headers buffered, the body is being gathered
	asking           // the ledger was asked and has not answered
	forwarded        // claimed, sent on; the answer is read along
	replied          // answered by us
	advertised       // sent on; its answer may gain an advert
	watching         // goes on; its body is looked at while it passes
	holding          // claimed; the filter makes the call itself, and the caller waits
	listed           // sent on; its answer is read for the server's hints
)

// Stream is one request and its response. Its methods are the proxy's callbacks.
type Stream struct {
	g      *Guard
	host   Host
	stage  stage
	policy *policy.Policy
	head   head
	call   call
	token  ledger.Token
	lease  ledger.Lease
	reply  readAlong
	advert *advertising // nil but for the answers that gain one

	listing *listing // nil but for the answers that are read for hints; beside advert, or in stage listed

	operated bool // a request of the operators' interface, which never goes on
	sniffs   bool // while reading: the body's beginning has not been seen, nor whether it is JSON

	watched []byte // while watching, what has passed of a body that came in pieces

	wait wait // how it waits until its body has been judged

	callout *detached // while holding: the call that was made

	waiter *waiter // of a call whose repeats wait for its answer, until the ledger's last word

	asked bool // the ledger was asked; index is where the guard keeps the stream
	index int
}

// call is what must be remembered of a call once its body has been read. Its bytes
// are copies.
type call struct {
	tool      *policy.Tool
	server    string
	session   string
	id        []byte              // the request's id token, empty where it could not be read; from forward on mcp.KeepID of it
	mark      ledger.Cancellation // what cancels it
	operation string              // the call's public name: 16 hex digits of its stored id
	forward   string              // what goes on in the header forward_key
	body      []byte              // what goes on in place of the body, nil = as it came
	root      *root               // nil where this is the first leg
	isCall    bool                // a well-formed tools/call whose id was read
	guarded   bool
	derived   bool // by what was called: no key was sent

	statusPath string // where the caller may ask how its key stands, "" = nowhere
}

// NewStream begins a stream.
func (g *Guard) NewStream(id uint32, h Host) *Stream {
	s := &Stream{g: g, host: h}
	s.Reuse(id)
	return s
}

// Reuse begins another stream in the memory of one that is over: Done was called, or
// Finished said that it need not be.
func (s *Stream) Reuse(id uint32) {
	s.g.tokens++
	*s = Stream{g: s.g, host: s.host, token: ledger.Token{Stream: id, Generation: s.g.tokens}, call: call{id: s.call.id[:0]}}
}

// Finished reports whether nothing is left to do: no other callback matters then, not
// even Done.
func (s *Stream) Finished() bool {
	return s.stage == passing && !s.asked && !s.wait.isLookedAt()
}

// Waits reports whether the request's headers are needed after this callback: until it
// has been judged.
func (s *Stream) Waits() bool { return s.stage == reading || s.stage == asking }

// RequestHeaders is called once; end says that there is no body.
func (s *Stream) RequestHeaders(end bool) (a Action) {
	defer s.contain(request, &a)
	s.policy = s.g.route(s.host)
	if s.policy == nil {
		return s.pass()
	}
	if s.policy.Operators.Path != "" {
		if a, is := s.operates(); is {
			return a
		}
	}
	if s.keyless() {
		return s.watch(end)
	}
	lines, err := s.host.RequestHeaders()
	if err != nil {
		return s.refuseUnread(unreadable)
	}
	s.head = readHead(lines, s.policy)
	switch s.classify() {
	case pass:
		if advertises(s.policy, s.head.mcpMethod) != "" {
			return s.passWith(s.head.mcpMethod)
		}
		return s.watch(end)
	case stray:
		return s.strayKey("")
	case unsupportedType:
		return s.refuseUnread(notJSON)
	case encoded:
		return s.refuseUnread(contentEncoding)
	case tooLarge:
		return s.refuseTooLarge()
	case sniff:
		if end {
			return s.passOtherType()
		}
		s.sniffs = true
	}
	s.stage = reading
	switch {
	case end:
		return s.judge(nil)
	case s.host.Crowded():
		return s.refuseCrowded()
	}
	return s.bufferHeaders()
}

// RequestBody is called as the body arrives, with the size of what is buffered so far.
func (s *Stream) RequestBody(size int, end bool) (a Action) {
	defer s.contain(request, &a)
	switch s.stage {
	case reading:
	case watching:
		return s.watchBody(size, end)
	default:
		return s.afterJudgement()
	}
	s.bodyCame()
	if s.sniffs && s.isOtherType(size, end) {
		return s.passOtherType()
	}
	if size > s.policy.MaxRequestBytes {
		return s.oversize(s.policy.MaxRequestBytes)
	}
	if !end {
		return Pause
	}
	return s.read(size)
}

// RequestTrailers ends a request whose body callback never said that it ended.
func (s *Stream) RequestTrailers(size int) (a Action) {
	defer s.contain(request, &a)
	if s.stage != reading {
		return s.afterJudgement()
	}
	s.bodyCame()
	if s.sniffs && s.isOtherType(size, true) {
		a = s.passOtherType()
	} else {
		a = s.read(size)
	}
	if a == Continue {
		return s.later()
	}
	return a
}

// afterJudgement is what the rest of a request does that has been judged.
func (s *Stream) afterJudgement() Action {
	return Action(s.stage == asking || s.stage == replied || s.stage == holding)
}

// read takes the whole body and judges it.
func (s *Stream) read(size int) Action {
	if size == 0 {
		return s.judge(nil)
	}
	body, err := s.host.RequestBody(size)
	if err != nil || len(body) != size {
		return s.refuseUnread(unreadable)
	}
	return s.judge(body)
}

// pass lets the request go on, and forgets it.
func (s *Stream) pass() Action {
	if s.stage = passing; s.listing != nil {
		s.stage = listed
	}
	s.head = head{}
	s.releaseMemory()
	return Continue
}

// releaseMemory lets go of what a caller could make large: the stream's memory is used again,
// and until then kept.
func (s *Stream) releaseMemory() {
	if cap(s.call.id) > 2*mcp.MostID {
		s.call.id = nil
	}
	s.call.body, s.watched = nil, nil
}

// Ended is called when the stream has ended, before its line of the access log is written:
// what is published now still reaches it. Done follows, and does the same where Ended was not
// called.
func (s *Stream) Ended() {
	var a Action
	defer s.contain(answerPasses, &a)
	if s.stage == forwarded {
		s.settleAtEnd()
	}
}

// Done is called when the stream is over, in whatever way.
func (s *Stream) Done() {
	var a Action
	defer s.contain(answerPasses, &a)
	defer s.leaveRoot()
	s.move(isOver)
	if s.asked {
		s.g.leave(s)
	}
	switch s.stage {
	case asking:
		s.leaveLedger()
		s.endWait(waitLeft)
	case forwarded:
		s.settleAtEnd()
	case advertised:
		s.dropAdvert()
	case holding:
		s.leaveCallout()
	}
	s.stage = passing
	s.forgetListing()
	s.releaseMemory()
}

// leaveLedger says that nobody waits for an answer any more.
func (s *Stream) leaveLedger() {
	s.leaveInquiry()
	if _, waits := s.g.waiting[s.token]; waits {
		delete(s.g.waiting, s.token)
		s.g.store.Forget(s.token)
	}
}

// phase says what can still be done when a fault of our own is met.
type phase uint8

const (
	request      phase = iota // the request, or our answer in its stead, can be held back
	answerBegins              // the answer's headers: a refusal can still go out in their place
	answerPasses              // nothing can be taken back
)

// contain keeps a fault of our own to the stream that met it. A key whose lease it has is
// marked unknown, since the call may have run; a call that might run unguarded, or whose
// answer can still be replaced, is refused; anything else goes on as it is.
func (s *Stream) contain(p phase, a *Action) {
	fault := recover()
	if fault == nil {
		return
	}
	s.g.fault(fault)
	s.failWait()
	was := s.stage
	s.stage = passing
	s.forgetListing()
	s.failAdvert()
	s.leaveCallout() // what the call is answered is not for whose stream this memory is next
	if was == forwarded {
		s.markUnknown()
	}
	*a = Continue
	switch {
	case p == answerPasses:
	case was == forwarded && !s.policy.Observe:
		*a = s.refuseFault()
	case p == request && was == replied:
		*a = Pause
	case p == request && s.operated:
		*a = s.answerFault()
	case p == request && was != passing && was != forwarded && s.mayBeGuarded():
		*a = s.refuseFault()
	}
}

// mayBeGuarded reports whether a request could be a call that is to be guarded.
func (s *Stream) mayBeGuarded() bool {
	if s.policy == nil || s.policy.Observe {
		return false
	}
	return s.call.guarded || s.head.keyed || s.policy.MustGuard
}

// markUnknown ends a lease whose call may have run.
func (s *Stream) markUnknown() {
	defer func() { _ = recover() }()
	s.settle(ledger.Outcome{Event: ledger.MarkUnknown}, byFault)
}
