package policy

import (
	"time"

	"github.com/callonce/callonce/canonical"
)

// onInFlight is what a repeat of a call in flight gets, as configured.
type onInFlight uint8

const (
	asPolicy onInFlight = iota // of a policy: refuse
	refuseInFlight
	waitInFlight
)

const (
	// DefaultWait is how long a repeat is held where nothing else is said: below the 30
	// seconds after which most clients give a request up.
	DefaultWait = 20 * time.Second

	// leastWait leaves room for the tick, once a second, that ends a wait in time.
	leastWait = 2 * time.Second
	mostWait  = 10 * time.Minute
)

func (r *reader) onInFlight(n canonical.Node, at string, into *onInFlight) {
	i, ok := r.choice(n, at, "refuse", "wait")
	if ok {
		*into = refuseInFlight + onInFlight(i)
	}
}

func (r *reader) wait(n canonical.Node, at string, into *time.Duration) {
	r.duration(n, at, leastWait, mostWait, into)
}

// finishWait works out how long repeats of a tool's calls are held.
func (t *Tool) finishWait(p *Policy) {
	t.Wait = 0
	if t.onInFlight == refuseInFlight || t.onInFlight == asPolicy && p.onInFlight != waitInFlight {
		return
	}
	for _, t.Wait = range [...]time.Duration{t.wait, p.wait, DefaultWait} {
		if t.Wait > 0 {
			return
		}
	}
}

// waits reports whether some repeat may be held.
func (p *Policy) waits() bool {
	for i := range p.Tools {
		if p.Tools[i].Wait > 0 {
			return true
		}
	}
	return p.Unlisted.Wait > 0
}

// Waits reports whether some repeat may be held.
func (c *Config) Waits() bool { return c.waits }

// warnWait tells where wait says how long, and nothing waits.
func (r *reader) warnWait(at string, p *Policy) {
	if p.wait > 0 && !p.waits() {
		r.warning(at+"/wait", "has no effect: nothing says \"on_in_flight\": \"wait\"")
	}
	for i := range p.Tools {
		if t := &p.Tools[i]; t.wait > 0 && t.Wait == 0 && t.Guard != GuardOff {
			r.warning(at+"/tools/"+itoa(i)+"/wait", "has no effect: nothing says \"on_in_flight\": \"wait\" of this tool")
		}
	}
}
