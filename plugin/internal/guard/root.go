package guard

import (
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
// A worker that dies between the two leaves the root free, and so does a root that has no
// room, or that runs itself just then, for somebody began a second round meanwhile.

// root is the claim of the first leg of the call that this leg belongs to, nil where this is
// the first leg itself. c is the leg's own.
func (s *Stream) root(r *mcp.Request, scope scoped, key []byte, c ledger.Claim) *ledger.Claim {
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
	root := c // not c itself, which would be allocated for every first leg too
	root.Fingerprint = sum
	root.ID = s.storedID(r, scope, key, sum, true)
	return &root
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
	if s.call.root == nil || o.Event == ledger.Release {
		return
	}
	if !s.call.rooted {
		answer, now := s.g.store.Ask(s.token, *s.call.root)
		if !now {
			// A store that answers later: nobody will be there to settle what it gives.
			s.g.store.Forget(s.token)
			s.call.root = nil
			return
		}
		if answer.Verdict != ledger.First {
			s.call.root = nil
			return
		}
		s.call.rooted, s.rootLease = true, answer.Lease
	}
	s.g.store.Settle(s.rootLease, o)
	s.settledLease(&s.rootLease)
}
