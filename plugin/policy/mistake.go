package policy

import "strings"

// Mistake is one thing wrong with a configuration.
type Mistake struct {
	Pointer  string // RFC 6901, "" = the whole text
	Found    string
	Expected string
}

// Error tells the place, what was found and what was expected, on one line.
func (m Mistake) Error() string {
	at := m.Pointer
	if at == "" {
		at = "(the whole text)"
	}
	return at + ": found " + m.Found + ", expected " + m.Expected
}

// Mistakes is every mistake of a configuration, in the order of its text.
type Mistakes []Mistake

// Error tells all mistakes, one a line.
func (ms Mistakes) Error() string {
	lines := make([]string, len(ms))
	for i, m := range ms {
		lines[i] = "callonce: configuration: " + m.Error()
	}
	return strings.Join(lines, "\n")
}
