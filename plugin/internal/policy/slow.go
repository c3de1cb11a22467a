package policy

import (
	"time"

	"github.com/callonce/callonce/canonical"
)

// either is one of two words of a configuration, or neither.
type either uint8

const (
	noWord either = iota
	firstWord
	secondWord
)

// slow is what a policy, or a tool, says of calls that take long.
type slow struct {
	onDisconnect  either // stop, continue
	onInFlight    either // refuse, wait
	detach        either // false, true; of a tool only
	wait          time.Duration
	detachTimeout time.Duration
	detachCluster string
}

const (
	// DefaultWait is how long a repeat is held where nothing else is said: below the 30
	// seconds after which most clients give a request up.
	DefaultWait = 20 * time.Second
	// DefaultDetachTimeout is how long a call may take that goes on without its caller.
	DefaultDetachTimeout = 10 * time.Minute

	// leastWait leaves room for the tick, once a second, that ends a wait in time.
	leastWait  = 2 * time.Second
	mostWait   = 10 * time.Minute
	mostDetach = 24 * time.Hour
)

func (r *reader) word(n canonical.Node, at string, into *either, first, second string) {
	if i, ok := r.choice(n, at, first, second); ok {
		*into = firstWord + either(i)
	}
}

// firstSaid is the first of words that is said.
func firstSaid(words ...either) either {
	for _, w := range words {
		if w != noWord {
			return w
		}
	}
	return noWord
}

// firstSet is the first value that is not zero.
func firstSet[T comparable](values ...T) (out T) {
	var zero T
	for _, out = range values {
		if out != zero {
			return out
		}
	}
	return out
}

// finishSlow works out how long repeats of a tool's calls are held, and whether its calls outlive
// their callers. What is said of the tool counts before what is said of the policy, and on_disconnect
// stands for the two that it is made of.
func (t *Tool) finishSlow(p *Policy) {
	onDisconnect := firstSaid(t.onDisconnect, p.onDisconnect)
	t.Wait = 0
	waits := firstSaid(t.onInFlight, p.onInFlight) == secondWord
	if t.onInFlight == noWord && (t.onDisconnect == secondWord || p.onInFlight == noWord && onDisconnect == secondWord) {
		waits = true
	}
	if waits {
		t.Wait = firstSet(t.wait, p.wait, DefaultWait)
	}
	t.Detach = t.Guard != GuardOff && firstSaid(t.detach, onDisconnect) == secondWord
	if t.Detach {
		t.DetachTimeout = firstSet(t.detachTimeout, p.detachTimeout, DefaultDetachTimeout)
		t.DetachCluster = firstSet(t.detachCluster, p.detachCluster)
	}
}

// anyTool reports whether something is true of a tool, or of those that no entry names.
func (p *Policy) anyTool(is func(*Tool) bool) bool {
	for i := range p.Tools {
		if is(&p.Tools[i]) {
			return true
		}
	}
	return is(&p.Unlisted)
}

func (p *Policy) waits() bool { return p.anyTool(func(t *Tool) bool { return t.Wait > 0 }) }

func (p *Policy) detaches() bool { return p.anyTool(func(t *Tool) bool { return t.Detach }) }

// Waits reports whether some repeat may be held.
func (c *Config) Waits() bool { return c.waits }

// checkDetach tells where calls cannot go on without their callers.
func (r *reader) checkDetach(at string, p *Policy) {
	if len(p.ReleasedStatuses) > 0 && p.anyTool(func(t *Tool) bool { return t.Detach && t.DetachCluster != "" }) {
		r.mistake(at+"/released_statuses", "statuses, with detach_cluster", "none: what stands at detach_cluster may answer with them by itself, for calls that ran")
	}
}

// warnSlow tells where a member says how long, or where to, and nothing waits or goes there.
func (r *reader) warnSlow(at string, p *Policy) {
	const noWait, noDetach = "has no effect: nothing says \"on_in_flight\": \"wait\"", "has no effect: nothing says \"detach\": true"
	if p.wait > 0 && !p.waits() {
		r.warning(at+"/wait", noWait)
	}
	if !p.detaches() {
		if p.detachTimeout > 0 {
			r.warning(at+"/detach_timeout", noDetach)
		}
		if p.detachCluster != "" {
			r.warning(at+"/detach_cluster", noDetach)
		}
	}
	for i := range p.Tools {
		t, tool := &p.Tools[i], at+"/tools/"+itoa(i)
		if t.Guard == GuardOff {
			continue
		}
		if t.wait > 0 && t.Wait == 0 {
			r.warning(tool+"/wait", noWait+" of this tool")
		}
		if t.Detach {
			continue
		}
		if t.detachTimeout > 0 {
			r.warning(tool+"/detach_timeout", noDetach+" of this tool")
		}
		if t.detachCluster != "" {
			r.warning(tool+"/detach_cluster", noDetach+" of this tool")
		}
		if t.CancelStops {
			r.warning(tool+"/cancel", noDetach+" of this tool")
		}
	}
}
