package policy

import (
	"bytes"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/callonce/callonce/canonical"
)

// Parse reads a configuration. It returns every mistake, not only the first; the
// Config is nil when there is one. An empty text is the empty configuration, in
// which every request is off.
func Parse(src []byte) (*Config, Mistakes) {
	if len(bytes.Trim(src, " \t\r\n")) == 0 {
		src = []byte("{}")
	}
	r := &reader{}
	if err := r.doc.Parse(src); err != nil {
		return nil, Mistakes{unreadable(src, err)}
	}
	c := &Config{exact: map[string]*Policy{}, byName: map[string]*Policy{}}
	var routes, def canonical.Node = canonical.NoNode, canonical.NoNode
	r.members(r.doc.Root(), "", []member{
		{"namespace", func(n canonical.Node, at string) {
			if r.text(n, at, "a string of up to 64 characters out of letters, digits, - _ .", 0, 64, &c.Namespace) && !plain(c.Namespace) {
				r.wrong(n, at, "a string of up to 64 characters out of letters, digits, - _ .")
			}
		}},
		{"store", func(n canonical.Node, at string) { r.store(n, at, &c.Store) }},
		{"policies", func(n canonical.Node, at string) { r.policies(n, at, c) }},
		{"routes", func(n canonical.Node, _ string) { routes = n }},
		{"default", func(n canonical.Node, _ string) { def = n }},
	})
	// Read after the policies, whatever the order of members: a mesh may have lost it.
	if routes != canonical.NoNode {
		r.routes(routes, "/routes", c)
	}
	if def != canonical.NoNode {
		c.def = r.policyName(def, "/default", c)
	}
	r.checkStore(c)
	if len(r.mistakes) > 0 {
		return nil, r.mistakes
	}
	c.warnings = r.warnings
	for _, p := range c.Policies {
		c.waits = c.waits || p.waits()
	}
	return c, nil
}

func plain(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.", c))
	}) < 0
}

func (r *reader) policies(n canonical.Node, at string, c *Config) {
	if !r.isObject(n, at) {
		return
	}
	warnings, of := r.warnings, map[*Policy][]string{}
	for m := r.doc.First(n); m != canonical.NoNode; m = r.doc.Next(m) {
		name := string(r.doc.Name(m))
		where := child(at, name)
		r.warnings = nil
		if name == "off" || name == "" || utf8.RuneCountInString(name) > 128 {
			r.mistake(where, "a policy of that name", `a name of 1 to 128 characters other than "off"`)
		}
		p := r.policy(m, where, name)
		c.byName[name] = p
		c.Policies = append(c.Policies, p)
		of[p] = r.warnings
	}
	sort.Slice(c.Policies, func(i, j int) bool { return c.Policies[i].Name < c.Policies[j].Name })
	for i, p := range c.Policies {
		p.Index = i
		warnings = append(warnings, of[p]...)
	}
	r.warnings = warnings
}

func (r *reader) routes(n canonical.Node, at string, c *Config) {
	if !r.isObject(n, at) {
		return
	}
	for m := r.doc.First(n); m != canonical.NoNode; m = r.doc.Next(m) {
		name := string(r.doc.Name(m))
		if name == "" {
			r.mistake(child(at, name), "an empty name", "a route's name or glob")
		}
		p := r.policyName(m, child(at, name), c)
		if strings.Contains(name, "*") {
			c.globs = append(c.globs, routeGlob{name, p})
		} else {
			c.exact[name] = p
		}
	}
	// Globs of one literal prefix are tried longest first, then by text: an order that
	// does not hang on the members' order, which a mesh may lose.
	sort.Slice(c.globs, func(i, j int) bool {
		a, b := c.globs[i].pattern, c.globs[j].pattern
		if x, y := literalPrefix(a), literalPrefix(b); x != y {
			return x > y
		}
		if len(a) != len(b) {
			return len(a) > len(b)
		}
		return a < b
	})
}

func (r *reader) policyName(n canonical.Node, at string, c *Config) *Policy {
	expected := `"off" or the name of a policy`
	var name string
	if !r.text(n, at, expected, 1, 128, &name) || name == "off" {
		return nil
	}
	p, ok := c.byName[name]
	if !ok {
		r.wrong(n, at, expected)
	}
	return p
}

// unreadable says why a text is no JSON that can be read in one way only.
func unreadable(src []byte, err error) Mistake {
	e, ok := err.(*canonical.Error)
	switch {
	case !ok:
		return Mistake{"", "text that is no strict JSON (" + err.Error() + ")", "one JSON object"}
	case e.Reason == canonical.DuplicateName:
		return Mistake{"", "the member " + nameAt(src, e.Offset) + " twice in one object (" + lineOf(src, e.First) + " and " + lineOf(src, e.Offset) + ")", "each member once"}
	}
	return Mistake{"", "text that is no strict JSON, " + lineOf(src, e.Offset) + " (" + err.Error() + ")", "one JSON object"}
}

// nameAt is the string that begins at an offset, as it is spelled there, with its quotes.
func nameAt(src []byte, offset int) string {
	end := offset + 1
	for end < len(src) && src[end] != '"' {
		if src[end] == '\\' {
			end++
		}
		end++
	}
	return shown(src[offset:min(end+1, len(src))])
}

// lineOf says in which line and column, counted from 1, an offset is.
func lineOf(src []byte, offset int) string {
	before := src[:min(offset, len(src))]
	return "line " + itoa(bytes.Count(before, []byte("\n"))+1) + ", column " + itoa(len(before)-bytes.LastIndexByte(before, '\n'))
}
