package policy

import "strings"

// Warnings tells what is no mistake, and yet hardly meant.
func (c *Config) Warnings() (out []string) {
	if c.def == nil && !c.routed() {
		out = append(out, "nothing is guarded, unless a route's metadata callonce/policy names a policy: /default is off, and /routes names no policy")
	}
	for _, p := range c.Policies {
		for i, t := range p.Tools {
			for j, earlier := range p.Tools[:i] {
				if earlier.Match == "*" || earlier.Match == t.Match || !strings.Contains(t.Match, "*") && Match(earlier.Match, t.Match) {
					at := child("/policies", p.Name) + "/tools/"
					out = append(out, at+itoa(i)+` is never used: the first entry that fits decides, and `+at+itoa(j)+` fits all that it does`)
					break
				}
			}
		}
	}
	return out
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
