package hostsim

import "github.com/callonce/callonce/hostsim/internal/header"

// The maps of the ABI.
const (
	mapRequestHeaders uint32 = iota
	mapRequestTrailers
	mapResponseHeaders
	mapResponseTrailers
	mapGrpcInitial
	mapGrpcTrailing
	mapCalloutHeaders
	mapCalloutTrailers
	mapCount
)

// Headers and trailers.
var headerFuncs = []hostFunc{
	{name: "proxy_get_header_map_value", words: 5, run: getHeaderValue},
	{name: "proxy_add_header_map_value", words: 5, run: addHeaderValue},
	{name: "proxy_replace_header_map_value", words: 5, run: replaceHeaderValue},
	{name: "proxy_remove_header_map_value", words: 3, run: removeHeaderValue},
	{name: "proxy_get_header_map_pairs", words: 3, run: getHeaderPairs},
	{name: "proxy_set_header_map_pairs", words: 3, run: setHeaderPairs},
	{name: "proxy_get_header_map_size", words: 2, run: getHeaderSize},
}

// readable is the map that the module may read at this moment, or nil. Headers that have gone on their way are out of reach, until
// the stream's end, when all can be read once more.
func (c *guestContext) readable(kind uint32) *header.Map {
	switch kind {
	case mapCalloutHeaders:
		if a := c.root.answer; a != nil {
			return a.headers
		}
		return nil
	case mapCalloutTrailers:
		if a := c.root.answer; a != nil {
			return a.trailers
		}
		return nil
	}
	s := c.stream
	if s == nil {
		return nil
	}
	if s.logging {
		m := c.writable(kind)
		switch kind {
		case mapRequestHeaders:
			m = s.request.headers
		case mapResponseHeaders:
			m = s.response.headers
		case mapResponseTrailers:
			m = s.response.trailers
		}
		if m == nil && kind != mapRequestTrailers {
			return &header.Map{} // in the end there is a map, if an empty one
		}
		return m
	}
	return c.writable(kind)
}

// writable is the map that the module may change at this moment, or nil.
func (c *guestContext) writable(kind uint32) *header.Map {
	s := c.stream
	if s == nil {
		return nil
	}
	switch kind {
	case mapRequestHeaders:
		return s.request.openHeaders
	case mapRequestTrailers:
		return s.request.openTrailers
	case mapResponseHeaders:
		return s.response.openHeaders
	case mapResponseTrailers:
		return s.response.openTrailers
	}
	return nil
}

func getHeaderValue(v *vm, s []uint64, _ *Call) Status {
	if word(s, 0) >= mapCount {
		return StatusBadArgument
	}
	key, ok := v.bytesArg(s, 1)
	if !ok {
		return StatusInvalidMemory
	}
	m := v.acting().readable(word(s, 0))
	if m == nil {
		return StatusBadArgument
	}
	value, ok := m.Get(lower(key))
	if !ok {
		return StatusNotFound
	}
	return v.give([]byte(value), word(s, 3), word(s, 4))
}

// edit runs f on a map that may be changed, with a key and a value read from the arguments 1 to 4.
func (v *vm) edit(s []uint64, f func(m *header.Map, key, value string)) Status {
	if word(s, 0) >= mapCount {
		return StatusBadArgument
	}
	key, ok1 := v.bytesArg(s, 1)
	value, ok2 := v.bytesArg(s, 3)
	if !ok1 || !ok2 {
		return StatusInvalidMemory
	}
	m := v.acting().writable(word(s, 0))
	if m == nil {
		return StatusBadArgument
	}
	f(m, lower(key), string(value))
	return StatusOK
}

func addHeaderValue(v *vm, s []uint64, _ *Call) Status     { return v.edit(s, (*header.Map).Add) }
func replaceHeaderValue(v *vm, s []uint64, _ *Call) Status { return v.edit(s, (*header.Map).Set) }

func removeHeaderValue(v *vm, s []uint64, _ *Call) Status {
	if word(s, 0) >= mapCount {
		return StatusBadArgument
	}
	key, ok := v.bytesArg(s, 1)
	if !ok {
		return StatusInvalidMemory
	}
	m := v.acting().writable(word(s, 0))
	if m == nil {
		return StatusBadArgument
	}
	m.Remove(lower(key))
	return StatusOK
}

// getHeaderPairs gives nothing, and no error, for a map that is out of reach; the Go SDK makes "not found" of that.
func getHeaderPairs(v *vm, s []uint64, _ *Call) Status {
	if word(s, 0) >= mapCount {
		return StatusBadArgument
	}
	m := v.acting().readable(word(s, 0))
	if header.Count(m) == 0 {
		return v.give(nil, word(s, 1), word(s, 2))
	}
	return v.give(formatPairs(m.Lines), word(s, 1), word(s, 2))
}

func setHeaderPairs(v *vm, s []uint64, _ *Call) Status {
	if word(s, 0) >= mapCount {
		return StatusBadArgument
	}
	b, ok := v.bytesArg(s, 1)
	if !ok {
		return StatusInvalidMemory
	}
	m := v.acting().writable(word(s, 0))
	if m == nil {
		return StatusBadArgument
	}
	m.Lines = nil
	for _, h := range parsePairs(b) {
		m.Add(h.Name, h.Value)
	}
	return StatusOK
}

func getHeaderSize(v *vm, s []uint64, _ *Call) Status {
	if word(s, 0) >= mapCount {
		return StatusBadArgument
	}
	m := v.acting().writable(word(s, 0))
	if m == nil {
		return StatusBadArgument
	}
	if !v.mem.WriteUint32Le(word(s, 1), uint32(m.Bytes())) {
		return StatusInvalidMemory
	}
	return StatusOK
}

// lower folds ASCII only: header names have nothing else.
func lower(b []byte) string {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
