package policy

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// policy reads one policy; every member it may have is a line of this table.
func (r *reader) policy(n canonical.Node, at, name string) *Policy {
	p := defaults(r.preset(n, at))
	p.Name = name
	limits := limitsGiven{}
	r.members(n, at, []member{
		{"preset", func(canonical.Node, string) {}}, // read first, whatever the order
		{"mode", func(n canonical.Node, at string) {
			i, _ := r.choice(n, at, "enforce", "observe")
			p.Observe = i == 1
		}},
		{"server", func(n canonical.Node, at string) { r.text(n, at, "a string of 1 to 128 characters", 1, 128, &p.Server) }},
		{"keys", func(n canonical.Node, at string) { p.Keys = r.keys(n, at) }},
		{"principal", func(n canonical.Node, at string) { p.Principal = r.principal(n, at) }},
		{"anonymous", func(n canonical.Node, at string) { r.flag(n, at, &p.Anonymous) }},
		{"ignore_cookies", func(n canonical.Node, at string) { p.IgnoreCookies = r.cookies(n, at) }},
		{"scope", func(n canonical.Node, at string) {
			r.each(n, at, func(n canonical.Node, at string) {
				p.Scope = append(p.Scope, r.source(n, at, scopeSources))
			})
		}},
		{"session", func(n canonical.Node, at string) { r.flag(n, at, &p.Session) }},
		{"path", func(n canonical.Node, at string) {
			i, _ := r.choice(n, at, pathWords...)
			p.Path = Path(i)
		}},
		{"key_per_tool", func(n canonical.Node, at string) { r.flag(n, at, &p.KeyPerTool) }},
		{"bind_request_id", func(n canonical.Node, at string) { r.flag(n, at, &p.BindRequestID) }},
		{"strip", func(n canonical.Node, at string) { r.flag(n, at, &p.Strip) }},
		{"advertise", func(n canonical.Node, at string) { r.flag(n, at, &p.Advertise) }},
		{"trust_hints", func(n canonical.Node, at string) { r.flag(n, at, &p.TrustHints) }},
		{"count_repeats", func(n canonical.Node, at string) { r.flag(n, at, &p.CountRepeats) }},
		{"log", func(n canonical.Node, at string) { p.Log = r.fields(n, at) }},
		{"log_unkeyed", func(n canonical.Node, at string) { r.flag(n, at, &p.LogUnkeyed) }},
		{"forward_key", func(n canonical.Node, at string) {
			var to string
			if !r.text(n, at, expectForward, 1, 1024, &to) {
				return
			}
			p.ForwardKey, p.ForwardPlace = "", mcp.Place{}
			if strings.HasPrefix(to, "json:") {
				var ok bool
				if p.ForwardPlace, ok = parsePlace(to); !ok {
					r.wrong(n, at, expectForward)
				}
				return
			}
			switch p.ForwardKey = strings.ToLower(to); {
			case !isHeaderName(p.ForwardKey) || len(to) > 128:
				r.wrong(n, at, expectForward)
			case isTaken(p.ForwardKey):
				r.wrong(n, at, expectFreeHeader)
			}
		}},
		{"stray_key", func(n canonical.Node, at string) {
			i, _ := r.choice(n, at, "ignore", "refuse")
			p.RefuseStray = i == 1
		}},
		{"released_statuses", func(n canonical.Node, at string) {
			r.each(n, at, func(n canonical.Node, at string) {
				var s int
				if r.integer(n, at, 500, 599, &s) {
					p.ReleasedStatuses = append(p.ReleasedStatuses, s)
				}
			})
		}},
		{"released_errors", func(n canonical.Node, at string) { p.ReleasedErrors = r.codes(n, at) }},
		{"reply", func(n canonical.Node, at string) {
			i, _ := r.choice(n, at, "http", "jsonrpc", "tool_result")
			p.Reply = Reply(i)
		}},
		{"marker", func(n canonical.Node, at string) {
			i, _ := r.choice(n, at, "none", "meta", "text")
			p.MarkMeta, p.MarkText = i > 0, i == 2
		}},
		{"tools", func(n canonical.Node, at string) {
			r.each(n, at, func(n canonical.Node, at string) { p.Tools = append(p.Tools, r.tool(n, at, p.Unlisted)) })
		}},
		{"ttl", func(n canonical.Node, at string) { r.duration(n, at, time.Second, 24*time.Hour, &p.TTL) }},
		{"lease", func(n canonical.Node, at string) { r.duration(n, at, 2*time.Second, 10*time.Minute, &p.Lease) }},
		{"max_request_bytes", func(n canonical.Node, at string) { r.integer(n, at, 1024, 64<<20, &p.MaxRequestBytes) }},
		{"on_store_error", func(n canonical.Node, at string) {
			i, _ := r.choice(n, at, "refuse", "forward")
			p.ForwardOnError = i == 1
		}},
		{"on_disconnect", func(n canonical.Node, at string) { r.word(n, at, &p.onDisconnect, "stop", "continue") }},
		{"on_in_flight", func(n canonical.Node, at string) { r.word(n, at, &p.onInFlight, "refuse", "wait") }},
		{"wait", func(n canonical.Node, at string) { r.duration(n, at, leastWait, mostWait, &p.wait) }},
		{"detach_timeout", func(n canonical.Node, at string) { r.duration(n, at, time.Second, mostDetach, &p.detachTimeout) }},
		{"detach_cluster", func(n canonical.Node, at string) { r.text(n, at, expectCluster, 1, 256, &p.detachCluster) }},
		{"operators", func(n canonical.Node, at string) { p.Operators = r.operators(n, at) }},
		{"limits", func(n canonical.Node, at string) { limits = r.limits(n, at, &p.Limits) }},
		{"limits_scope", func(n canonical.Node, at string) {
			i, _ := r.choice(n, at, "policy", "proxy")
			p.LimitsOfProxy = i == 1
		}},
	})
	p.finish()
	r.check(n, at, &p, limits)
	return &p
}

// preset reads the member that the defaults of all others hang on.
func (r *reader) preset(policy canonical.Node, at string) Preset {
	n := r.doc.Member(policy, "preset")
	if n == canonical.NoNode {
		return NoPreset
	}
	i, ok := r.choice(n, at+"/preset", presetNames...)
	if !ok {
		return NoPreset
	}
	return Preset(i + 1)
}

// DefaultLease is the lease of a policy that names none, unless its ttl is shorter.
const DefaultLease = 15 * time.Second

// finish works out what follows from the members.
func (p *Policy) finish() {
	if p.Lease == 0 {
		p.Lease = min(DefaultLease, p.TTL)
	}
	p.Unlisted.TTL = p.TTL
	p.Unlisted.finishSlow(p)
	p.MustGuard = p.Unlisted.Guard.Must()
	for i := range p.Tools {
		t := &p.Tools[i]
		if t.TTL == 0 {
			t.TTL = p.TTL
		}
		t.finishSlow(p)
		p.MustGuard = p.MustGuard || t.Guard.Must()
	}
	for _, k := range p.Keys {
		if k.Pointer != "" {
			p.Pointers = append(p.Pointers, k.Pointer)
		}
	}
	p.HeaderKeysOnly = len(p.Pointers) == 0
	if p.Strip || p.Forwards() {
		p.drop(resending...)
		for _, k := range p.Keys {
			p.drop(k.Header)
		}
	}
}

// resending are the headers that make Go's net/http, in whatever gateway or client stands
// behind this proxy, send a POST again by itself when a connection that it used before
// dies under it (net/http.Transport). So they go with the key, whoever sent them.
var resending = []string{"idempotency-key", "x-idempotency-key"}

// drop notes headers that do not go on, but the one in which the key does.
func (p *Policy) drop(headers ...string) {
	for _, h := range headers {
		if h != "" && h != p.ForwardKey && !slices.Contains(p.Dropped, h) {
			p.Dropped = append(p.Dropped, h)
		}
	}
}

// check tells what is wrong between members.
func (r *reader) check(n canonical.Node, at string, p *Policy, given limitsGiven) {
	if r.doc.Kind(n) != canonical.Object {
		return
	}
	if principal := r.doc.Member(n, "principal"); !p.Anonymous && !r.told(at+"/anonymous") && (principal == canonical.NoNode ||
		r.doc.Kind(principal) == canonical.Array && r.doc.First(principal) == canonical.NoNode) {
		found := "nothing"
		if principal != canonical.NoNode {
			found = "an empty list"
		}
		r.mistake(at+"/principal", found, `a list of sources such as "header:x-user", or "anonymous": true beside it`)
	}
	if p.TTL < p.Lease && !r.told(at+"/ttl") {
		r.mistake(at+"/ttl", `"`+spelled(p.TTL)+`"`, `at least lease ("`+spelled(p.Lease)+`")`)
	}
	for i := range p.Tools {
		if t := &p.Tools[i]; t.TTL < p.Lease && t.TTL != p.TTL {
			r.mistake(at+"/tools/"+itoa(i)+"/ttl", `"`+spelled(t.TTL)+`"`, `at least lease ("`+spelled(p.Lease)+`")`)
		}
	}
	if _, ok := p.ArgumentKey(); ok && p.Advertise && !p.Strip {
		r.mistake(at+"/advertise", "true, with a key in an argument and without strip", `"strip": true beside it: a server does not know the argument`)
	}
	r.checkDetach(at, p)
	r.checkLimits(at+"/limits", &p.Limits, given)
	r.warn(n, at, p)
}

func (r *reader) tool(n canonical.Node, at string, t Tool) Tool {
	t.Match = ""
	r.members(n, at, []member{
		{"match", func(n canonical.Node, at string) {
			r.text(n, at, "a tool name or glob of 1 to 128 characters", 1, 128, &t.Match)
		}},
		{"guard", func(n canonical.Node, at string) {
			i, _ := r.choice(n, at, "off", "optional", "required", "derived")
			t.Guard = Guard(i)
		}},
		{"window", func(n canonical.Node, at string) { r.duration(n, at, time.Second, 24*time.Hour, &t.Window) }},
		{"exclude", func(n canonical.Node, at string) {
			r.each(n, at, func(n canonical.Node, at string) {
				var ptr string
				r.pointer(n, at, &ptr)
				t.Exclude = append(t.Exclude, ptr)
			})
		}},
		{"round", func(n canonical.Node, at string) { t.Round = r.round(n, at) }},
		{"status_tool", func(n canonical.Node, at string) {
			r.text(n, at, "a tool name of 1 to 128 characters", 1, 128, &t.StatusTool)
		}},
		{"status_argument", func(n canonical.Node, at string) {
			r.text(n, at, expectArgument, 1, 128, &t.StatusArgument)
		}},
		{"on_unknown", func(n canonical.Node, at string) {
			i, _ := r.choice(n, at, "refuse", "retry")
			t.RetryUnknown = i == 1
		}},
		{"on_disconnect", func(n canonical.Node, at string) { r.word(n, at, &t.onDisconnect, "stop", "continue") }},
		{"on_in_flight", func(n canonical.Node, at string) { r.word(n, at, &t.onInFlight, "refuse", "wait") }},
		{"wait", func(n canonical.Node, at string) { r.duration(n, at, leastWait, mostWait, &t.wait) }},
		{"detach", func(n canonical.Node, at string) {
			var is bool
			if r.flag(n, at, &is); is {
				t.detach = secondWord
			} else {
				t.detach = firstWord
			}
		}},
		{"detach_timeout", func(n canonical.Node, at string) { r.duration(n, at, time.Second, mostDetach, &t.detachTimeout) }},
		{"detach_cluster", func(n canonical.Node, at string) { r.text(n, at, expectCluster, 1, 256, &t.detachCluster) }},
		{"cancel", func(n canonical.Node, at string) {
			i, _ := r.choice(n, at, "continue", "stop")
			t.CancelStops = i == 1
		}},
		{"on_tool_error", func(n canonical.Node, at string) {
			i, _ := r.choice(n, at, "replay", "release")
			t.ReleaseToolError = i == 1
		}},
		{"on_error", func(n canonical.Node, at string) {
			i, _ := r.choice(n, at, "replay", "release")
			t.ReleaseError = i == 1
		}},
		{"released_errors", func(n canonical.Node, at string) { t.ReleasedErrors = r.codes(n, at) }},
		{"not_done", func(n canonical.Node, at string) { t.NotDone = r.signs(n, at) }},
		{"ttl", func(n canonical.Node, at string) { r.duration(n, at, time.Second, 24*time.Hour, &t.TTL) }},
		{"result_id", func(n canonical.Node, at string) { r.pointer(n, at, &t.ResultID) }},
	})
	if r.doc.Kind(n) == canonical.Object && r.doc.Member(n, "match") == canonical.NoNode {
		r.mistake(at+"/match", "nothing", "a tool name or glob of 1 to 128 characters")
	}
	return t
}

// codes reads a list of JSON-RPC error codes.
func (r *reader) codes(n canonical.Node, at string) (out []int) {
	r.each(n, at, func(n canonical.Node, at string) {
		var code int
		if r.integer(n, at, math.MinInt32, math.MaxInt32, &code) {
			out = append(out, code)
		}
	})
	return out
}

const expectArgument = "an argument's name of 1 to 128 characters"

const expectSignValue = "a string, a number, true, false or null"

// signs reads a list of {"pointer", "equals"}.
func (r *reader) signs(n canonical.Node, at string) (out []mcp.Sign) {
	r.each(n, at, func(n canonical.Node, at string) {
		var sign mcp.Sign
		r.members(n, at, []member{
			{"pointer", func(n canonical.Node, at string) { r.pointer(n, at, &sign.Pointer) }},
			{"equals", func(n canonical.Node, at string) {
				if k := r.doc.Kind(n); k == canonical.Object || k == canonical.Array || r.doc.Lone(n) >= 0 {
					r.wrong(n, at, expectSignValue)
					return
				}
				sign.Equals = r.doc.Append(nil, n)
			}},
		})
		if r.doc.Kind(n) == canonical.Object {
			if r.doc.Member(n, "pointer") == canonical.NoNode {
				r.mistake(at+"/pointer", "nothing", expectPointer)
			}
			if r.doc.Member(n, "equals") == canonical.NoNode {
				r.mistake(at+"/equals", "nothing", expectSignValue)
			}
		}
		out = append(out, sign)
	})
	return out
}

func (r *reader) pointer(n canonical.Node, at string, into *string) {
	if r.text(n, at, expectPointer, 1, 1024, into) && !isPointer(*into) {
		r.wrong(n, at, expectPointer)
	}
}

func (r *reader) round(n canonical.Node, at string) (out []mcp.Round) {
	if !r.isObject(n, at) {
		return nil
	}
	for m := r.doc.First(n); m != canonical.NoNode; m = r.doc.Next(m) {
		ptr := string(r.doc.Name(m))
		where := child(at, ptr)
		if !isPointer(ptr) {
			r.mistake(where, "a member of that name", expectPointer)
		}
		round := mcp.Round{Pointer: ptr}
		r.integer(m, where, 1, 365*24*3600, &round.Seconds)
		out = append(out, round)
	}
	slices.SortFunc(out, func(a, b mcp.Round) int { return strings.Compare(a.Pointer, b.Pointer) })
	return out
}
