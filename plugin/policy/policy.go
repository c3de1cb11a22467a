// Package policy says what may be done: it reads the filter's configuration and
// answers which policy a request falls under and what each tool costs.
//
// It must not know where a request comes from (no proxy-wasm), nor what happened
// before (no ledger). A configuration is read once, at plugin start; everything
// that a request needs from it is laid out for look-up without allocation.
package policy

import "time"

// Guard says what a tool costs.
type Guard uint8

const (
	// GuardOff leaves a call alone: no hashing, no storage, no edits.
	GuardOff Guard = iota
	// GuardOptional guards a call that carries a key.
	GuardOptional
	// GuardRequired refuses a call without a key.
	GuardRequired
	// GuardDerived makes a key from scope, tool and fingerprint where none is sent.
	GuardDerived
)

// Must reports whether a tool of this guard is guarded even without a key.
func (g Guard) Must() bool { return g == GuardRequired || g == GuardDerived }

// Config is the whole configuration, checked.
type Config struct {
	Namespace string
	Policies  []*Policy // sorted by name, so that a policy's index is stable for one set of names

	exact  map[string]*Policy // route name → policy; nil value = off
	globs  []routeGlob        // longest literal prefix first
	byName map[string]*Policy
	def    *Policy // nil = off
}

type routeGlob struct {
	pattern string
	policy  *Policy
}

// Policy is one policy with every default filled in.
type Policy struct {
	Name   string
	Index  int    // place among Config.Policies
	Server string // "" = take the virtual host's name and the policy's

	Keys           []KeyPlace
	HeaderKeysOnly bool // every key place is a header

	Principal []Principal
	Anonymous bool
	Scope     []Source
	Session   bool

	KeyPerTool    bool
	BindRequestID bool
	RefuseStray   bool

	Tools    []Tool
	Unlisted Tool // what a name that no entry fits gets

	MustGuard        bool // some tool, or what unlisted tools take, is required or derived
	ReleasedStatuses []int

	TTL             time.Duration
	MaxRequestBytes int
	Limits          Limits
}

// Limits bound what a policy may keep. Sizes are bytes.
type Limits struct {
	ReplyBytes  int
	StoredBytes int
}

// Tool is an entry of a policy's `tools`.
type Tool struct {
	Match      string // the glob as configured; a label value
	Guard      Guard
	Window     time.Duration
	TTL        time.Duration
	Exclude    []string // JSON Pointers into arguments
	StatusTool string
}

// KeyPlace is one place where a key may stand: exactly one member is set.
type KeyPlace struct {
	Header  string // lower case
	Pointer string // RFC 6901, below /params
}

// Source yields one value of an identity or a scope.
type Source struct {
	Text   string // as configured; part of the identity, so that a claim never equals a header
	Header string // lower case
}

// Principal is a list of sources that must all yield.
type Principal []Source

// Tool gives the first entry whose match fits name, else what unlisted tools take.
func (p *Policy) Tool(name string) *Tool {
	for i := range p.Tools {
		if Match(p.Tools[i].Match, name) {
			return &p.Tools[i]
		}
	}
	return &p.Unlisted
}

// Released reports whether the server sends this status only when it has not run the tool.
func (p *Policy) Released(status int) bool {
	for _, s := range p.ReleasedStatuses {
		if s == status {
			return true
		}
	}
	return false
}

// Route gives the policy of a request, nil for off. metadata is the route's
// metadata callonce/policy ("" = none) and wins over the route's name. known is
// false when the metadata names a policy that does not exist: a typing mistake
// must not switch the guard off.
func (c *Config) Route(metadata, route string) (p *Policy, known bool) {
	if metadata != "" {
		if metadata == "off" {
			return nil, true
		}
		p, ok := c.byName[metadata]
		return p, ok
	}
	if route != "" {
		if p, ok := c.exact[route]; ok {
			return p, true
		}
		for _, g := range c.globs {
			if Match(g.pattern, route) {
				return g.policy, true
			}
		}
	}
	return c.def, true
}

// ReadsRoutes reports whether the route's name can matter, so that a caller need
// not ask the proxy for it.
func (c *Config) ReadsRoutes() bool { return len(c.exact)+len(c.globs) > 0 }
