package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const (
	token    = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]" // a character of a header's name, RFC 9110
	pointer  = "(/([^~/]|~[01])*)+"
	duration = `[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)`
)

// phrases are what the parser expects, in its own words, and what that is in JSON Schema.
var phrases = []struct {
	words *regexp.Regexp
	make  func(m []string) map[string]any
}{
	{regexp.MustCompile(`^true or false$`), func([]string) map[string]any { return map[string]any{"type": "boolean"} }},
	{regexp.MustCompile(`^a string, a number, true, false or null$`), func([]string) map[string]any {
		return map[string]any{"type": []any{"string", "number", "boolean", "null"}}
	}},
	{regexp.MustCompile(`^an integer from (-?\d+) to (-?\d+)$`), func(m []string) map[string]any {
		return map[string]any{"type": "integer", "minimum": number(m[1]), "maximum": number(m[2])}
	}},
	{regexp.MustCompile(`^a duration from `), func([]string) map[string]any { return text("^" + duration + "$") }},
	{regexp.MustCompile(`^a JSON Pointer such as `), func([]string) map[string]any { return text("^" + pointer + "$") }},
	{regexp.MustCompile(`^the name of a header, "json:/params/arguments/<name>" or `), func([]string) map[string]any {
		s := text("^(" + token + "{1,128}|json:/params/(arguments|_meta)/([^/~]|~[01])+)$")
		s["not"] = map[string]any{"pattern": `^json:/params/_meta/(progressToken$|io\.modelcontextprotocol~1)`} // the protocol's own
		return s
	}},
	{regexp.MustCompile(`^the name of a header`), func([]string) map[string]any { return bounded(text("^"+token+"+$"), "1", "128") }},
	{regexp.MustCompile(`^the name of a cookie, .* of (\d+) to (\d+) characters`), func(m []string) map[string]any {
		return bounded(text("^"+token+"*[0-9A-Za-z]"+token+"*$"), m[1], m[2])
	}},
	{regexp.MustCompile(`^the name of a cluster, (\d+) to (\d+) characters$`), func(m []string) map[string]any { return bounded(text(""), m[1], m[2]) }},
	{regexp.MustCompile(`^(\d+) to (\d+) letters, digits, - _ \. and / that begin and end with /`), func(m []string) map[string]any {
		return bounded(text(`^/([A-Za-z0-9_.\-/]*/)?$`), m[1], m[2])
	}},
	{regexp.MustCompile(`^a path of (\d+) to (\d+) letters, digits, - _ \. and / that begins with / and does not end with one$`), func(m []string) map[string]any {
		return bounded(text(`^(/[A-Za-z0-9_.\-]+)+$`), m[1], m[2])
	}},
	{regexp.MustCompile(`^"off" or the name of a policy$`), func([]string) map[string]any { return bounded(text(""), "1", "128") }},
	{regexp.MustCompile(`^a route's name or glob$`), func([]string) map[string]any { return bounded(text(""), "1", "") }},
	{regexp.MustCompile(`^a name of (\d+) to (\d+) characters other than "(\w+)"$`), func(m []string) map[string]any {
		s := bounded(text(""), m[1], m[2])
		s["not"] = map[string]any{"const": m[3]}
		return s
	}},
	{regexp.MustCompile(`^a string of up to (\d+) characters out of letters, digits, - _ \.$`), func(m []string) map[string]any {
		return bounded(text(`^[A-Za-z0-9_.\-]*$`), "", m[1])
	}},
	{regexp.MustCompile(`^an? .* of (\d+) to (\d+) characters$`), func(m []string) map[string]any { return bounded(text(""), m[1], m[2]) }},
	{regexp.MustCompile(`^"[^"]*"(?:(?:, | or )"[^"]*")*$`), words},
}

// shapes are texts of which only the beginning is fixed.
var shapes = map[string]string{
	"header:<name>":                "header:" + token + "+",
	"metadata:<filter>/<path>":     "metadata:[^/]+(/[^/]+)+",
	"json:<pointer under /params>": "json:/params" + pointer,

	"metadata:<filter>/<path>=<value>": "metadata:[^/=]+(/[^/=]+)+=.+",
	"peer:uri_san=<value>":             "peer:uri_san=.+",
	"peer:subject=<value>":             "peer:subject=.+",
}

// words are some texts of which one is wanted, or shapes of such.
func words(m []string) map[string]any {
	var all []any
	var patterns []string
	shaped := false
	for _, quoted := range regexp.MustCompile(`"[^"]*"`).FindAllString(m[0], -1) {
		word := strings.Trim(quoted, `"`)
		all = append(all, word)
		if p, ok := shapes[word]; ok {
			shaped, word = true, p
		} else if strings.ContainsAny(word, "<>") {
			panic("config: a shape without a pattern: " + word)
		}
		patterns = append(patterns, word)
	}
	if !shaped {
		return map[string]any{"enum": all}
	}
	return text("^(" + strings.Join(patterns, "|") + ")$")
}

// leaf makes a schema of what the parser expected. A phrase that is not in the table is a
// mistake of this package, which its test finds.
func leaf(expected string) map[string]any {
	for _, p := range phrases {
		if m := p.words.FindStringSubmatch(expected); m != nil {
			s := p.make(m)
			s["description"] = expected
			return s
		}
	}
	panic(fmt.Sprintf("config: what is %q in JSON Schema?", expected))
}

func text(pattern string) map[string]any {
	s := map[string]any{"type": "string"}
	if pattern != "" {
		s["pattern"] = pattern
	}
	return s
}

// bounded sets the least and the most number of characters, where given.
func bounded(s map[string]any, least, most string) map[string]any {
	if least != "" {
		s["minLength"] = number(least)
	}
	if most != "" {
		s["maxLength"] = number(most)
	}
	return s
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}
