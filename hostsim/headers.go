package hostsim

import (
	"net/http"
	"slices"
	"strings"
)

// Header is one line of headers or trailers; names are lower case inside the host.
type Header struct{ Name, Value string }

// headerMap is an ordered list of lines, pseudo headers (":path") among them.
type headerMap struct{ lines []Header }

func (m *headerMap) get(name string) (string, bool) {
	for i := range m.lines {
		if m.lines[i].Name == name {
			return m.lines[i].Value, true
		}
	}
	return "", false
}

func (m *headerMap) value(name string) string {
	v, _ := m.get(name)
	return v
}

func (m *headerMap) has(name string) bool {
	_, ok := m.get(name)
	return ok
}

func (m *headerMap) add(name, value string) {
	m.lines = append(m.lines, Header{strings.ToLower(name), value})
}

// set replaces every line of name by one.
func (m *headerMap) set(name, value string) {
	m.remove(name)
	m.add(name, value)
}

func (m *headerMap) remove(name string) {
	name = strings.ToLower(name)
	m.lines = slices.DeleteFunc(m.lines, func(h Header) bool { return h.Name == name })
}

// join makes one line, where the first stands, of all lines of name. It is what Envoy does with headers that it knows to be single.
func (m *headerMap) join(name string) {
	first := -1
	for i := 0; i < len(m.lines); i++ {
		switch {
		case m.lines[i].Name != name:
		case first < 0:
			first = i
		default:
			m.lines[first].Value += "," + m.lines[i].Value
			m.lines = slices.Delete(m.lines, i, i+1)
			i--
		}
	}
}

// bytes counts names and values only, as Envoy's byteSize does.
func (m *headerMap) bytes() int {
	if m == nil {
		return 0
	}
	n := 0
	for _, h := range m.lines {
		n += len(h.Name) + len(h.Value)
	}
	return n
}

func headerCount(m *headerMap) int {
	if m == nil {
		return 0
	}
	return len(m.lines)
}

// fromHTTP lists headers by name, since net/http does not keep the order of different names.
func fromHTTP(m http.Header) *headerMap {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	h := &headerMap{}
	for _, n := range names {
		for _, v := range m[n] {
			h.add(n, v)
		}
	}
	return h
}
