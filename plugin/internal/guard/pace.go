package guard

import (
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// pace is how long the calls of one configured tool took, as far as this worker has seen: a histogram in powers of two of a second, in
// which older calls count less and less. It is for the advice when to come back, and for nothing else.
type pace struct {
	calls [paceSteps]uint16 // that took at most 1, 2, 4, … seconds, and longer than the step before
	total int
}

const (
	paceSteps = 13  // the last is above an hour
	paceMost  = 256 // calls, before all count half
	paceLeast = 8   // calls, before it says anything

	longestAdvice = 300 // seconds
)

func (p *pace) add(took time.Duration) {
	step := 0
	for step < paceSteps-1 && took > time.Second<<step {
		step++
	}
	p.calls[step]++
	if p.total++; p.total < paceMost {
		return
	}
	p.total = 0
	for i := range p.calls {
		p.calls[i] /= 2
		p.total += int(p.calls[i])
	}
}

// retryAfter is when to come back for the answer to a call that has run for so long, in seconds: when four of five of its kind have
// ended, or, where it takes longer than those, after another quarter of its time.
func (p *pace) retryAfter(ran time.Duration) int {
	if p.total < paceLeast {
		return 1
	}
	ended, usual := 0, time.Second
	for step, n := range p.calls {
		if ended += int(n); 5*ended >= 4*p.total {
			usual = time.Second << step
			break
		}
	}
	left := usual - ran
	if left <= 0 {
		left = ran / 4
	}
	return min(max(int((left+time.Second-1)/time.Second), 1), longestAdvice)
}

// paced reports whether the time that calls of a tool take is looked at: it costs a look at the clock.
func paced(t *policy.Tool) bool { return t != nil && (t.Wait > 0 || t.Detach) }

// tookSoLong notes how long a call took that has an answer.
func (s *Stream) tookSoLong() {
	if !paced(s.call.tool) {
		return
	}
	p := s.g.paces[s.call.tool]
	if p == nil {
		p = &pace{}
		s.g.paces[s.call.tool] = p // as many as there are entries in the configuration
	}
	p.add(time.Duration(s.g.now() - s.lease.Claimed))
}

// comeBack is the Retry-After of a call in flight.
func (s *Stream) comeBack(prior ledger.Prior) int {
	p := s.g.paces[s.call.tool]
	if p == nil || !prior.Known {
		return 1
	}
	return p.retryAfter(time.Duration(s.g.now() - prior.Claimed))
}
