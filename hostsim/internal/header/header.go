// Package header holds the header lines of a message in their order, which is what a filter sees and net/http does not keep. It knows no protocol that carries them.
package header

import (
	"net/http"
	"slices"
	"strings"
)

// Line is one line of headers or trailers.
type Line struct{ Name, Value string }

// Map is an ordered list of lines, pseudo headers (":path") among them.
type Map struct{ Lines []Line }

func (m *Map) Get(name string) (string, bool) {
	for i := range m.Lines {
		if m.Lines[i].Name == name {
			return m.Lines[i].Value, true
		}
	}
	return "", false
}

func (m *Map) Value(name string) string {
	v, _ := m.Get(name)
	return v
}

func (m *Map) Has(name string) bool {
	_, ok := m.Get(name)
	return ok
}

func (m *Map) Add(name, value string) {
	m.Lines = append(m.Lines, Line{Name: strings.ToLower(name), Value: value})
}

// Set replaces every line of name by one.
func (m *Map) Set(name, value string) {
	m.Remove(name)
	m.Add(name, value)
}

func (m *Map) Remove(name string) {
	name = strings.ToLower(name)
	m.Lines = slices.DeleteFunc(m.Lines, func(h Line) bool { return h.Name == name })
}

func (m *Map) Clone() *Map { return &Map{Lines: slices.Clone(m.Lines)} }

// Join makes one line, where the first stands, of all lines of name. It is what Envoy does with headers that it knows to be single.
func (m *Map) Join(name string) {
	first := -1
	for i := 0; i < len(m.Lines); i++ {
		switch {
		case m.Lines[i].Name != name:
		case first < 0:
			first = i
		default:
			m.Lines[first].Value += "," + m.Lines[i].Value
			m.Lines = slices.Delete(m.Lines, i, i+1)
			i--
		}
	}
}

// Bytes counts names and values only, as Envoy's byteSize does.
func (m *Map) Bytes() int {
	if m == nil {
		return 0
	}
	n := 0
	for _, h := range m.Lines {
		n += len(h.Name) + len(h.Value)
	}
	return n
}

// Count is the number of lines; m may be nil.
func Count(m *Map) int {
	if m == nil {
		return 0
	}
	return len(m.Lines)
}

// FromHTTP lists headers by name, since net/http does not keep the order of different names.
func FromHTTP(m http.Header) *Map {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	h := &Map{}
	for _, n := range names {
		for _, v := range m[n] {
			h.Add(n, v)
		}
	}
	return h
}
