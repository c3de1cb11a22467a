package policy

import (
	"strconv"
	"strings"
	"unicode"
)

// Mistake is one thing wrong with a configuration.
type Mistake struct {
	Pointer  string // RFC 6901, "" = the whole text
	Found    string
	Expected string
}

// Error tells the place, what was found and what was expected, on one line.
func (m Mistake) Error() string {
	at := m.Pointer
	switch {
	case at == "":
		at = "(the whole text)"
	case strings.ContainsFunc(at, unicode.IsControl):
		at = strconv.Quote(at)
	}
	return at + ": found " + m.Found + ", expected " + m.Expected
}

// Mistakes is every mistake of a configuration. Those of a policy stand together; what
// hangs on the policies (routes, default) comes after them.
type Mistakes []Mistake

// Error tells all mistakes, one a line.
func (ms Mistakes) Error() string {
	lines := make([]string, len(ms))
	for i, m := range ms {
		lines[i] = "configuration: " + m.Error()
	}
	return strings.Join(lines, "\n")
}
