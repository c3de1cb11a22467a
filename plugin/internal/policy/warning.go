package policy

import (
	"slices"
	"strings"

	"github.com/callonce/callonce/canonical"
)

// Warnings tells what is no mistake, and yet hardly meant. Each names the place by its
// JSON Pointer.
func (c *Config) Warnings() (out []string) {
	if c.def == nil && !c.routed() {
		out = append(out, "nothing is guarded, unless a route's metadata callonce/policy names a policy: /default is off, and /routes names no policy")
	}
	return append(out, c.warnings...)
}

// routed reports whether some route leads to a policy.
func (c *Config) routed() bool {
	for _, p := range c.exact {
		if p != nil {
			return true
		}
	}
	for _, g := range c.globs {
		if g.policy != nil {
			return true
		}
	}
	return false
}

// warning goes on from the place: what begins with a verb.
func (r *reader) warning(at, what string) {
	r.warnings = append(r.warnings, printable(at)+" "+what)
}

// warn tells what of a policy is hardly meant. Only what is certain from the policy
// alone: where it is in force, a route's metadata may say.
func (r *reader) warn(n canonical.Node, at string, p *Policy) {
	if p.Anonymous && p.derives() {
		r.warning(at+"/anonymous", "makes one caller of all that send neither Authorization nor a cookie that does more than steer and show no client certificate: where keys are derived they get each other's answers; a principal tells them apart")
	}
	if p.Preset == Gateway {
		r.warnUnverified(at, p)
	}
	if len(p.IgnoreCookies) > 0 && !p.Anonymous {
		r.warning(at+"/ignore_cookies", "has no effect: cookies count for anonymous callers only")
	}
	if r.doc.Member(n, "strip") == canonical.NoNode && len(p.Dropped) == 0 {
		for _, k := range p.Keys {
			if slices.Contains(resending, k.Header) {
				r.warning(at+"/strip", "is not there, so the header "+k.Header+" goes on to the server: a Go gateway behind this proxy sends a POST that carries it again by itself "+
					"when a connection dies, and the tool runs twice; true, or forward_key, takes it out, and false says that it is meant")
				break
			}
		}
	}
	r.warnSlow(at, p)
	entry := r.doc.First(r.doc.Member(n, "tools"))
	for i := range p.Tools {
		where := at + "/tools/" + itoa(i)
		if j := p.hiddenBy(i); j >= 0 {
			r.warning(where, "is never used: the first entry that fits decides, and "+printable(at+"/tools/"+itoa(j))+" fits all that it does")
		}
		r.warnIdle(entry, where, p, &p.Tools[i])
		if t := &p.Tools[i]; t.StatusArgument != "" && t.StatusTool == "" {
			r.warning(where+"/status_argument", "has no effect: no status_tool is named")
		}
		if t := &p.Tools[i]; t.Guard != GuardOff && t.StatusTool != "" && p.Tool(t.StatusTool).Guard.Must() {
			r.warning(where+"/status_tool", "names a tool that is guarded itself (required or derived): who asks twice gets a refusal, or the first answer again; a tool that only reads wants an entry with the guard off")
		}
		entry = r.doc.Next(entry)
	}
}

// warnUnverified tells where preset gateway, whose design guards calls of verified
// identities only, takes others: callers without one, and those whom a header names, which
// nobody here has verified.
func (r *reader) warnUnverified(at string, p *Policy) {
	if p.Anonymous {
		r.warning(at+"/anonymous", "takes callers whose identity nobody verified, which the preset gateway is not for: name claims or a certificate in principal, or take another preset")
	}
	for i, all := range p.Principal {
		if !slices.ContainsFunc(all, func(s Source) bool { return s.Header == "" }) {
			r.warning(at+"/principal/"+itoa(i), "is an identity that nobody verified, which the preset gateway is not for: callers could set the header; name claims or a certificate, alone or beside it, or take another preset")
		}
	}
}

// warnIdle names the members of an entry that change nothing under its guard.
func (r *reader) warnIdle(entry canonical.Node, at string, p *Policy, t *Tool) {
	given := func(member string) bool { return r.doc.Member(entry, member) != canonical.NoNode }
	if t.Guard != GuardOff {
		if t.Guard != GuardDerived && given("window") {
			r.warning(at+"/window", "has no effect: it is for the guard derived")
		}
		return
	}
	idle := []string{"window", "on_unknown", "on_disconnect", "on_in_flight", "wait", "detach", "detach_timeout", "detach_cluster", "cancel", "on_tool_error", "on_error", "released_errors", "not_done", "ttl", "result_id"}
	if !p.LogUnkeyed { // else they shape the arguments_hash of the log
		idle = append(idle, "exclude", "round")
	}
	if !p.RefuseStray { // else it is named where a key is refused
		idle = append(idle, "status_tool")
	}
	for _, member := range idle {
		if given(member) {
			r.warning(at+"/"+member, "has no effect: the guard is off")
		}
	}
}

// derives reports whether some call may get a key that is derived.
func (p *Policy) derives() bool {
	for i := range p.Tools {
		if p.Tools[i].Guard == GuardDerived {
			return true
		}
	}
	return p.Unlisted.Guard == GuardDerived
}

// hiddenBy gives the earlier entry that fits everything that an entry fits, -1 for none
// that certainly does.
func (p *Policy) hiddenBy(i int) int {
	match := p.Tools[i].Match
	for j, earlier := range p.Tools[:i] {
		if earlier.Match == "*" || earlier.Match == match || !strings.Contains(match, "*") && Match(earlier.Match, match) {
			return j
		}
	}
	return -1
}
