package guard

import (
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// The filter may stand twice in one chain: once for the whole mesh and once for a
// workload. The instance behind then meets the claim of the one ahead, made by the very
// request that it judges, and would refuse every call because that call is running.
//
// What the one ahead published of the stream tells them apart. It is read only where the
// ledger, or the lack of a key, is about to refuse: a chain with one filter never asks.
// No caller can set it, since it is the proxy's state of the stream and no header.
var (
	propOutcome = []string{stateOutcome}
	propKey     = []string{stateKey}
	propAttempt = []string{stateAttempt}
	propTaken   = []string{stateTaken}
	propRefusal = []string{stateRefusal}
	propMode    = []string{stateMode}
)

// claimedAhead reports whether what the ledger refuses a claim for is the claim of this
// very stream, made by an instance ahead. A fingerprint may differ all the same, by what
// another policy leaves out of it.
func (s *Stream) claimedAhead(a ledger.Answer) bool {
	switch a.Verdict {
	case ledger.First:
		return false
	case ledger.RefusedInFlight, ledger.RefusedConflict:
		if a.Prior.Known && a.Prior.Settled == 0 && s.says(propOutcome, outFirst) &&
			s.says(propKey, s.call.operation) && s.saysAttempt(a.Prior.Attempt) {
			return true
		}
	}
	return s.call.derived && s.keyTakenAhead()
}

// takesKeysOut reports whether a key may not be where it was for an instance behind.
func (s *Stream) takesKeysOut() bool { return s.policy.Strip || s.policy.Forwards() }

// keyTakenAhead reports whether this call had a key until an instance ahead, which claimed
// it under that key, took it out or moved it. What is derived in its stead would be one
// key for many intents.
func (s *Stream) keyTakenAhead() bool {
	return s.says(propTaken, "true") && s.says(propOutcome, outFirst)
}

func (s *Stream) says(state []string, want string) bool {
	v, ok := s.host.Property(state)
	return ok && string(v) == want
}

// saysAttempt reports whether the one ahead published that attempt. It need not publish the first.
func (s *Stream) saysAttempt(n int) bool {
	v, ok := s.host.Property(propAttempt)
	return ok && string(v) == itoa(n) || !ok && n == 1
}

// guardedAhead lets a call go on that an instance ahead has claimed: it settles, too.
// Nothing is counted as a decision, and what the one ahead published stays.
func (s *Stream) guardedAhead() Action {
	s.g.counts.add(s.label(), claimedAhead)
	if s.g.once.first(remark{topic: aboutTwoFilters}) {
		s.g.log("the filter stands twice in one chain: a call had been claimed by the instance ahead of this one, which lets it pass. One of them is enough")
	}
	if !s.policy.Observe && !s.edit() {
		return s.refuse(&mcp.Unavailable, "")
	}
	return s.pass()
}

// answeredBehind reports whether an instance behind answered this call in the server's
// stead, so that it was not sent. What that one answers for a fault of its own proves
// nothing.
func (s *Stream) answeredBehind(details string) bool {
	if details != "" || s.says(propMode, modeObserve) {
		return false
	}
	refusal, refused := s.host.Property(propRefusal)
	return s.says(propOutcome, outReplay) || refused && string(refusal) != mcp.Unavailable.Type && len(refusal) > 0
}
