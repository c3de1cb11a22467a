package policy

import (
	"strings"
	"time"

	"github.com/callonce/callonce/canonical"
)

// policy reads one policy; every member it may have is a line of this table.
func (r *reader) policy(n canonical.Node, at, name string) *Policy {
	p := &Policy{
		Name:            name,
		TTL:             defaultTTL,
		MaxRequestBytes: defaultMaxRequestBytes,
		Limits:          Limits{ReplyBytes: defaultReplyBytes, StoredBytes: defaultStoredBytes},
	}
	for _, k := range defaultKeys {
		place, _ := parseKeyPlace(k)
		p.Keys = append(p.Keys, place)
	}
	r.members(n, at, []member{
		{"server", func(n canonical.Node, at string) { r.text(n, at, "a string of 1 to 128 characters", 1, 128, &p.Server) }},
		{"keys", func(n canonical.Node, at string) { p.Keys = r.keys(n, at) }},
		{"principal", func(n canonical.Node, at string) { p.Principal = r.principal(n, at) }},
		{"anonymous", func(n canonical.Node, at string) { r.flag(n, at, &p.Anonymous) }},
		{"scope", func(n canonical.Node, at string) {
			r.each(n, at, func(n canonical.Node, at string) { p.Scope = append(p.Scope, r.source(n, at)) })
		}},
		{"session", func(n canonical.Node, at string) { r.flag(n, at, &p.Session) }},
		{"key_per_tool", func(n canonical.Node, at string) { r.flag(n, at, &p.KeyPerTool) }},
		{"bind_request_id", func(n canonical.Node, at string) { r.flag(n, at, &p.BindRequestID) }},
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
		{"reply", func(n canonical.Node, at string) { r.choice(n, at, "http") }},
		{"tools", func(n canonical.Node, at string) {
			r.each(n, at, func(n canonical.Node, at string) { p.Tools = append(p.Tools, r.tool(n, at)) })
		}},
		{"ttl", func(n canonical.Node, at string) { r.duration(n, at, time.Second, 24*time.Hour, &p.TTL) }},
		{"max_request_bytes", func(n canonical.Node, at string) { r.integer(n, at, 1024, 64<<20, &p.MaxRequestBytes) }},
		{"limits", func(n canonical.Node, at string) { r.limits(n, at, &p.Limits) }},
		{"preset", nil}, {"mode", nil}, {"strip", nil}, {"advertise", nil}, {"log_unkeyed", nil},
		{"forward_key", nil}, {"marker", nil}, {"lease", nil}, {"on_store_error", nil},
	})
	if len(p.Principal) == 0 && !p.Anonymous && r.doc.Kind(n) == canonical.Object && r.doc.Member(n, "principal") == canonical.NoNode {
		r.mistake(at+"/principal", "nothing", `a list of sources such as "header:x-user", or "anonymous": true beside it`)
	}
	p.finish()
	return p
}

// finish works out what follows from the members.
func (p *Policy) finish() {
	p.Unlisted = Tool{Match: "*", Guard: GuardOptional, Window: defaultWindow, TTL: p.TTL}
	p.MustGuard = p.Unlisted.Guard.Must()
	for i := range p.Tools {
		t := &p.Tools[i]
		if t.TTL == 0 {
			t.TTL = p.TTL
		}
		p.MustGuard = p.MustGuard || t.Guard.Must()
	}
	p.HeaderKeysOnly = true
	for _, k := range p.Keys {
		p.HeaderKeysOnly = p.HeaderKeysOnly && k.Header != ""
	}
}

func (r *reader) tool(n canonical.Node, at string) Tool {
	t := Tool{Guard: GuardOptional, Window: defaultWindow}
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
				if r.text(n, at, expectPointer, 1, 1024, &ptr) && !isPointer(ptr) {
					r.wrong(n, at, expectPointer)
				}
				t.Exclude = append(t.Exclude, ptr)
			})
		}},
		{"status_tool", func(n canonical.Node, at string) {
			r.text(n, at, "a tool name of 1 to 128 characters", 1, 128, &t.StatusTool)
		}},
		{"ttl", func(n canonical.Node, at string) { r.duration(n, at, time.Second, 24*time.Hour, &t.TTL) }},
		{"round", nil}, {"on_unknown", nil}, {"on_tool_error", nil}, {"result_id", nil},
	})
	if r.doc.Kind(n) == canonical.Object && r.doc.Member(n, "match") == canonical.NoNode {
		r.mistake(at+"/match", "nothing", "a tool name or glob of 1 to 128 characters")
	}
	return t
}

func (r *reader) limits(n canonical.Node, at string, l *Limits) {
	r.members(n, at, []member{
		{"reply_bytes", func(n canonical.Node, at string) { r.integer(n, at, 1, 16<<20, &l.ReplyBytes) }},
		{"stored_bytes", func(n canonical.Node, at string) { r.integer(n, at, 1, 1<<30, &l.StoredBytes) }},
		{"entries", nil}, {"entries_per_principal", nil}, {"entries_per_scope", nil},
		{"in_flight", nil}, {"in_flight_per_principal", nil}, {"in_flight_per_scope", nil},
		{"tombstones_per_scope", nil}, {"on_full", nil},
	})
	if l.ReplyBytes > l.StoredBytes {
		r.mistake(at+"/reply_bytes", "a value above stored_bytes", "at most stored_bytes, the level over it")
	}
}

const (
	expectKeyPlace = `"header:<name>" or "json:<pointer under /params>"`
	expectSource   = `"header:<name>"`
	expectPointer  = "a JSON Pointer such as /sent_at"
)

func (r *reader) keys(n canonical.Node, at string) []KeyPlace {
	var out []KeyPlace
	r.each(n, at, func(n canonical.Node, at string) {
		var s string
		if !r.text(n, at, expectKeyPlace, 1, 1024, &s) {
			return
		}
		place, ok := parseKeyPlace(s)
		if !ok {
			r.wrong(n, at, expectKeyPlace)
			return
		}
		out = append(out, place)
	})
	if r.doc.Kind(n) == canonical.Array && r.doc.First(n) == canonical.NoNode {
		r.mistake(at, "an empty list", "at least one of "+expectKeyPlace)
	}
	return out
}

func parseKeyPlace(s string) (KeyPlace, bool) {
	if name, ok := strings.CutPrefix(s, "header:"); ok {
		return KeyPlace{Header: strings.ToLower(name)}, isHeaderName(name)
	}
	if ptr, ok := strings.CutPrefix(s, "json:"); ok {
		below, ok := strings.CutPrefix(ptr, "/params/")
		return KeyPlace{Pointer: "/" + below}, ok && isPointer("/"+below)
	}
	return KeyPlace{}, false
}

func (r *reader) principal(n canonical.Node, at string) []Principal {
	var out []Principal
	r.each(n, at, func(n canonical.Node, at string) {
		var all Principal
		if r.doc.Kind(n) == canonical.Array {
			r.each(n, at, func(n canonical.Node, at string) { all = append(all, r.source(n, at)) })
			if len(all) == 0 {
				r.mistake(at, "an empty list", "at least one of "+expectSource)
			}
		} else {
			all = Principal{r.source(n, at)}
		}
		out = append(out, all)
	})
	return out
}

func (r *reader) source(n canonical.Node, at string) Source {
	var s string
	if !r.text(n, at, expectSource, 1, 256, &s) {
		return Source{}
	}
	name, ok := strings.CutPrefix(s, "header:")
	if !ok || !isHeaderName(name) {
		r.wrong(n, at, expectSource)
	}
	name = strings.ToLower(name)
	return Source{Text: "header:" + name, Header: name}
}

// isHeaderName reports whether s is a token of RFC 9110 section 5.6.2.
func isHeaderName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// isPointer reports whether s is a JSON Pointer (RFC 6901) to something below the root.
func isPointer(s string) bool {
	if !strings.HasPrefix(s, "/") {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}
