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
	at := "(the whole text)"
	if m.Pointer != "" {
		at = printable(m.Pointer)
	}
	return at + ": found " + m.Found + ", expected " + m.Expected
}

// printable is a pointer on one line, whatever its names contain.
func printable(pointer string) string {
	if strings.ContainsFunc(pointer, unicode.IsControl) {
		return strconv.Quote(pointer)
	}
	return pointer
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
