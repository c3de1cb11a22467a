// Package config judges configurations of the filter in its own words, for commands and
// tests that have no proxy at hand. It must not know how a configuration is acted on.
package config

import (
	"slices"

	"github.com/callonce/callonce/plugin/internal/policy"
)

// Check reads a configuration as the filter does at its start. The error lists every
// mistake, one a line, each with its JSON pointer, what was found and what was expected:
// word for word what a proxy's log will say. warnings are what is no mistake, and yet
// hardly meant.
func Check(text []byte) (warnings []string, err error) {
	c, mistakes := policy.Parse(text)
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	return c.Warnings(), nil
}

// CallerHeaders names the headers without which a configuration's default policy knows no
// caller: those of the first principal that consists of headers alone. There are none
// where callers may be anonymous, or where Check finds mistakes.
func CallerHeaders(text []byte) (names []string) {
	c, mistakes := policy.Parse(text)
	if len(mistakes) > 0 {
		return nil
	}
	p, _ := c.Route("", "")
	if p == nil || p.Anonymous {
		return nil
	}
	for _, principal := range p.Principal {
		if slices.ContainsFunc(principal, func(s policy.Source) bool { return s.Header == "" }) {
			continue
		}
		for _, s := range principal {
			names = append(names, s.Header)
		}
		return names
	}
	return nil
}
