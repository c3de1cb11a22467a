// Package policy says what may be done: it reads the filter's configuration and
// answers which policy a request falls under and what each tool costs.
//
// It must not know where a request comes from (no proxy-wasm), nor what happened
// before (no ledger). A configuration is read once, at plugin start; everything
// that a request needs from it is laid out for look-up without allocation.
package policy

import (
	"slices"
	"time"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

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
	Store     Store
	Policies  []*Policy // sorted by name, so that a policy's index is stable for one set of names

	exact  map[string]*Policy // route name → policy; nil value = off
	globs  []routeGlob        // longest literal prefix first
	byName map[string]*Policy
	def    *Policy // nil = off

	waits    bool
	warnings []string // of members and their values
}

type routeGlob struct {
	pattern string
	policy  *Policy
}

// Policy is one policy with every default filled in.
type Policy struct {
	Name    string
	Index   int // into Config.Policies
	Preset  Preset
	Observe bool   // everything is computed and counted, nothing is refused or edited
	Server  string // "" = take the virtual host's name and the policy's

	Keys           []KeySource
	Pointers       []string // those of Keys that are pointers
	HeaderKeysOnly bool     // every key source is a header

	Principal []Principal
	Anonymous bool
	Scope     []Source
	Session   bool
	Path      Path

	IgnoreCookies []string // names or globs, beside those that steer anyway

	KeyPerTool    bool
	BindRequestID bool
	Strip         bool
	ForwardKey    string    // header, lower case; "" = none
	ForwardPlace  mcp.Place // in the body, instead of a header
	Dropped       []string  // headers, lower case, that do not go on with a guarded call
	RefuseStray   bool
	Advertise     bool
	Log           Fields // of a call, that are published
	TrustHints    bool   // of servers, for tools that no entry names
	LogUnkeyed    bool
	CountRepeats  bool // of each key
	Reply         Reply
	MarkMeta      bool // of replays, in _meta
	MarkText      bool // and in the content too

	Tools    []Tool
	Unlisted Tool // what a name that no entry fits gets

	MustGuard        bool // some tool, or what unlisted tools take, is required or derived
	ReleasedStatuses []int
	ReleasedErrors   []int // of JSON-RPC, besides those that always release
	ForwardOnError   bool  // a store that cannot answer lets calls through, unguarded

	slow
	Operators Operators

	TTL             time.Duration
	Lease           time.Duration
	MaxRequestBytes int
	Limits          Limits
	LimitsOfProxy   bool // what Limits allow counts over all policies of this kind
}

// Path says how a request's path counts in the scope of keys.
type Path uint8

const (
	// PathNormalized tells apart what a server tells apart: spellings of one path are one.
	PathNormalized Path = iota
	// PathExact takes the path as it came, without its query.
	PathExact
	// PathIgnored leaves it out.
	PathIgnored
)

// pathWords are the values of Path as a configuration writes them.
var pathWords = []string{PathNormalized: "normalized", PathExact: "exact", PathIgnored: "ignore"}

// Forwards reports whether the key goes on to the server.
func (p *Policy) Forwards() bool { return p.ForwardKey != "" || p.ForwardPlace.Name != "" }

// EditsBodies reports whether a guarded call's body may go on as another than came.
func (p *Policy) EditsBodies() bool { return p.Strip || p.ForwardPlace.Name != "" }

// Preset names one of the designs that a policy's defaults may follow.
type Preset uint8

const (
	NoPreset Preset = iota
	Gateway
	SEP3182
	Derived
	Forward
)

// Reply is the shape of a refusal of a tools/call whose id was read.
type Reply uint8

const (
	// ReplyHTTP is a JSON-RPC error with an HTTP status of its own.
	ReplyHTTP Reply = iota
	// ReplyJSONRPC is the same body with status 200.
	ReplyJSONRPC
	// ReplyToolResult is a tool result with isError: true, status 200.
	ReplyToolResult
)

// Limits bound what a policy may keep. Sizes are bytes, the rest are entries.
type Limits struct {
	Entries, EntriesPerPrincipal, EntriesPerScope    int
	InFlight, InFlightPerPrincipal, InFlightPerScope int
	TombstonesPerScope                               int
	ReplyBytes                                       int
	StoredBytes                                      int
	Waiting, WaitingPerScope                         int  // repeats that are held, in each worker
	Detached, DetachedPerScope                       int  // calls that go on without their callers, in each worker
	Evict                                            bool // at an entry cap, evict the oldest completed entry
}

// Tool is an entry of a policy's `tools`.
type Tool struct {
	Match            string // the glob as configured; a label value
	Guard            Guard
	Window           time.Duration
	TTL              time.Duration
	Exclude          []string // JSON Pointers into arguments
	Round            []mcp.Round
	StatusTool       string
	StatusArgument   string     // of a call: what StatusTool takes to find it
	RetryUnknown     bool       // a repeat may take over a call whose outcome is unknown
	ReleaseToolError bool       // an isError result frees the key
	ReleaseError     bool       // so does a JSON-RPC error
	ReleasedErrors   []int      // further ones than the policy's
	NotDone          []mcp.Sign // of results that free the key: the tool has not done it yet
	ResultID         string     // JSON Pointer into the result, "" = none

	Wait time.Duration // a repeat of a call in flight may be held so long for its answer; 0 = it is refused

	Detach        bool          // the filter calls the server itself, so that the call outlives its caller
	DetachTimeout time.Duration // of such a call
	DetachCluster string        // that it goes to; "" = the route's
	CancelStops   bool          // a cancellation ends the wait for its answer

	slow // as configured, its zero values are the policy's
}

// KeySource is where a key may stand: exactly one member is set.
type KeySource struct {
	Header  string // lower case
	Pointer string // RFC 6901, below /params
}

// Source gives one value of an identity or a scope: a header, or one of the proxy's
// attributes.
type Source struct {
	Text     string   // as configured; part of the identity, so that a claim never equals a SAN
	Header   string   // lower case, "" = none
	Property []string // path of the attribute
	Peer     bool     // of the client's certificate: counts only when it was validated
}

// Principal is a list of sources that must all give a value.
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

// notRun are the JSON-RPC errors by which every server says that it has not run the tool:
// the client is to ask for consent first and then repeat the call (MCP 2025-11-25), the
// request could not be read, is no request, or names no method of the server.
var notRun = []int{-32042, -32700, -32600, -32601}

// ReleasedError reports whether a server answers a call of the tool with this JSON-RPC
// error only when it has not run it.
func (p *Policy) ReleasedError(t *Tool, code int) bool {
	return slices.Contains(notRun, code) || slices.Contains(p.ReleasedErrors, code) || slices.Contains(t.ReleasedErrors, code)
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
