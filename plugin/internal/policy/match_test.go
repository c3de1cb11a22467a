package policy_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/policy"
)

// reference says the same with a regular expression.
func reference(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)\A` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `\z`)
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"charge", "charge", true},
		{"charge", "charges", false},
		{"charge", "Charge", false},
		{"charge", "", false},
		{"", "", true},
		{"", "x", false},
		{"*", "", true},
		{"*", "anything\nat all", true},
		{"**", "x", true},
		{"get_*", "get_", true},
		{"get_*", "get_x*", true},
		{"get_*", "get", false},
		{"*_all", "_all", true},
		{"*_all", "x_all_all", true},
		{"*_all", "x_all_", false},
		{"a*b*c", "abc", true},
		{"a*b*c", "a--b--b--c", true},
		{"a*b*c", "acb", false},
		{"a*a", "a", false},
		{"*aab", "aaab", true},
		{"a?c", "abc", false},
		{"a?c", "a?c", true},
		{"a.c", "abc", false},
		{"[ab]", "a", false},
		{`a\*`, `a\x`, true},
		{`a\*`, `a*`, false},
		{"é*", "éa", true},
		{"*😀*", "a😀b", true},
	} {
		if got := policy.Match(c.pattern, c.name); got != c.want || reference(c.pattern).MatchString(c.name) != c.want {
			t.Errorf("Match(%q, %q) = %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
}

func TestMatchAtRandom(t *testing.T) {
	text := func(r *rand.Rand, letters []string, most int) string {
		var b strings.Builder
		for range r.IntN(most) {
			b.WriteString(letters[r.IntN(len(letters))])
		}
		return b.String()
	}
	for seed := range uint64(4_000) {
		r := rand.New(rand.NewPCG(seed, 0))
		pattern := text(r, []string{"*", "a", "b", "*", "é", "a"}, 10)
		of := reference(pattern)
		for range 20 {
			n := text(r, []string{"a", "b", "a", "é", "*", "\n"}, 14)
			if got := policy.Match(pattern, n); got != of.MatchString(n) {
				t.Fatalf("seed %d: Match(%q, %q) = %v", seed, pattern, n, got)
			}
		}
	}
}

// Patterns that send a backtracking matcher off for ever: with these lengths it would
// not come back within the life of the machine.
func TestMatchHostilePatterns(t *testing.T) {
	name := strings.Repeat("a", 100_000)
	for _, pattern := range []string{
		strings.Repeat("*a", 64) + "*b",
		strings.Repeat("a*", 64) + "b",
		strings.Repeat("*", 127) + "b",
		strings.Repeat("*aaaa", 25) + "b",
		"*" + strings.Repeat("a", 126) + "b",
	} {
		if policy.Match(pattern, name) {
			t.Errorf("Match(%q, aaa…) = true", pattern)
		}
		if !policy.Match(pattern, name+"b") {
			t.Errorf("Match(%q, aaa…b) = false", pattern)
		}
	}
}

// Which errors say that nothing ran: those of the protocol, those of the policy, and those
// of the tool, each with no regard to the others.
func TestReleasedErrors(t *testing.T) {
	p := one(t, policyWith(`"released_errors":[-32602],"tools":[{"match":"a","released_errors":[-32000]},{"match":"b"}]`))
	a, b := p.Tool("a"), p.Tool("b")
	for _, c := range []struct {
		code int
		a, b bool
	}{
		{-32700, true, true}, {-32600, true, true}, {-32601, true, true}, {-32042, true, true},
		{-32602, true, true}, {-32000, true, false},
		{-32603, false, false}, {-32001, false, false}, {0, false, false}, {32042, false, false},
	} {
		if onA, onB := p.ReleasedError(a, c.code), p.ReleasedError(b, c.code); onA != c.a || onB != c.b {
			t.Errorf("code %d: releases a %v, b %v; want %v, %v", c.code, onA, onB, c.a, c.b)
		}
	}
}
