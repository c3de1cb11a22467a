package guard

import (
	"slices"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/scratch"
)

// A tool that asks back (resultType input_required) takes its call in legs, each with the
// requestState of the question before it, and each a key of its own in the ledger. The first
// one, without a state, is the root: it is what a client sends that begins again under the
// same key. So what settles a later leg settles the root too, after it: then a second round
// finds the first one's answer, and not the question again and another run.
//
// Nobody waits for that. A store that answers later is asked as the answer goes on, and the
// root settled when it has said so, whether or not the stream is still there. Until then,
// and where a worker dies before, the root is free. It stays free where it has no room, or
// runs itself just then, for somebody began a second round meanwhile. A worker that dies
// between claim and settlement leaves it unknown.

// root is the first leg of the call that a later leg belongs to.
type root struct {
	claim   ledger.Claim
	token   ledger.Token // its own: its stream has another claim
	stage   rootStage
	over    bool           // the stream has ended
	outcome ledger.Outcome // while it is asked for: what it is to be settled with, copied
	lease   ledger.Lease   // once it is won
}

type rootStage uint8

const (
	rootUnasked rootStage = iota
	rootAsked             // the store has not answered
	rootWon
	rootLost // it is not ours to settle
)

// mostRootBytes bounds the answers that wait, of all roots of a worker, until a store has
// said that they can be kept. Beyond it a root becomes not replayable.
const mostRootBytes = 8 << 20

// root is that of a later leg, nil where this is the first leg itself. c is the leg's own.
func (s *Stream) root(r *mcp.Request, scope scoped, key []byte, c ledger.Claim) *root {
	s.g.buf = r.State(s.g.buf[:0])
	first := len(s.g.buf) == 0
	if s.g.buf = scratch.Keep(s.g.buf); first {
		return nil
	}
	derived := key == nil
	shape := s.shape(derived)
	shape.FirstLeg = true
	sum, buf := r.Fingerprint(s.g.buf, shape)
	s.g.buf = scratch.Keep(buf)
	of := &root{claim: c} // not &c, which would be allocated for every first leg too
	of.claim.Root = true
	of.claim.Fingerprint = sum
	of.claim.ID = s.storedID(r, scope, key, sum, true)
	return of
}

// shape is what of a call counts in its fingerprint. A derived key never binds the request's
// id: every attempt has another one, and each would be a key of its own.
func (s *Stream) shape(derived bool) mcp.Shape {
	return mcp.Shape{
		BindID: s.policy.BindRequestID && !derived, Exclude: s.call.tool.Exclude, Round: s.call.tool.Round,
	}
}

// settleRoot settles the root as the leg was settled. A leg that was released says nothing
// of the whole: the tool asks on, or did not run.
func (s *Stream) settleRoot(o ledger.Outcome) {
	r := s.call.root
	if r == nil || o.Event == ledger.Release {
		return
	}
	switch r.stage {
	case rootUnasked:
		s.g.tokens++
		r.token = ledger.Token{Stream: s.token.Stream, Generation: s.g.tokens}
		r.stage = rootAsked
		s.g.roots[r.token] = r
		answer, now := s.g.store.Ask(r.token, r.claim)
		if now {
			r.outcome = o
			s.g.rootAnswered(r, answer)
		} else {
			s.g.keepForRoot(r, o)
		}
	case rootAsked:
		s.g.keepForRoot(r, o)
	case rootWon:
		s.g.store.Settle(r.lease, o)
	}
	if r.stage == rootWon {
		s.settledLease(&r.lease)
	}
}

// keepForRoot keeps what a root is to be settled with, in place of what was kept before.
func (g *Guard) keepForRoot(r *root, o ledger.Outcome) {
	g.rootBytes -= len(r.outcome.Reply.Message)
	if g.rootBytes+len(o.Reply.Message) > mostRootBytes {
		o = ledger.Outcome{Event: ledger.MarkNotReplayable}
	}
	o.Reply.Message = slices.Clone(o.Reply.Message)
	g.rootBytes += len(o.Reply.Message)
	r.outcome = o
}

// rootAnswered takes what the store says to the claim of a root.
func (g *Guard) rootAnswered(r *root, a ledger.Answer) {
	o := r.outcome
	r.outcome = ledger.Outcome{}
	if a.Verdict == ledger.First {
		r.stage, r.lease = rootWon, a.Lease
		g.store.Settle(r.lease, o)
	} else {
		r.stage = rootLost
	}
	if r.over {
		delete(g.roots, r.token)
	}
}

// rootAnsweredLate is that for a store that answered later.
func (g *Guard) rootAnsweredLate(r *root, a ledger.Answer) {
	g.rootBytes -= len(r.outcome.Reply.Message)
	g.rootAnswered(r, a)
}

// leaveRoot says that the stream has ended: nothing worse follows for its root.
func (s *Stream) leaveRoot() {
	if r := s.call.root; r != nil {
		r.over = true
		if r.stage != rootAsked {
			delete(s.g.roots, r.token) // the store finds out at its next tick
		}
	}
}
