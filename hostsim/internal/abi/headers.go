package abi

import "github.com/callonce/callonce/hostsim/internal/header"

// Headers and trailers.
var headerFuncs = []function{
	{name: "proxy_get_header_map_value", words: 5, run: getHeaderValue},
	{name: "proxy_add_header_map_value", words: 5, run: addHeaderValue},
	{name: "proxy_replace_header_map_value", words: 5, run: replaceHeaderValue},
	{name: "proxy_remove_header_map_value", words: 3, run: removeHeaderValue},
	{name: "proxy_get_header_map_pairs", words: 3, run: getHeaderPairs},
	{name: "proxy_set_header_map_pairs", words: 3, run: setHeaderPairs},
	{name: "proxy_get_header_map_size", words: 2, run: getHeaderSize},
}

func getHeaderValue(g *Guest, s []uint64, _ *Arguments) Status {
	if Map(word(s, 0)) >= mapCount {
		return BadArgument
	}
	key, ok := g.bytes(s, 1)
	if !ok {
		return InvalidMemory
	}
	m := g.Proxy.Readable(Map(word(s, 0)))
	if m == nil {
		return BadArgument
	}
	value, ok := m.Get(Lower(key))
	if !ok {
		return NotFound
	}
	return g.give([]byte(value), word(s, 3), word(s, 4))
}

// edit runs f on a map that may be changed, with n pieces of bytes: the arguments from 1 on.
func (g *Guest) edit(s []uint64, n int, f func(m *header.Map, b [][]byte)) Status {
	if Map(word(s, 0)) >= mapCount {
		return BadArgument
	}
	b, ok := g.several(s, 1, n)
	if !ok {
		return InvalidMemory
	}
	m := g.Proxy.Writable(Map(word(s, 0)))
	if m == nil {
		return BadArgument
	}
	f(m, b)
	return OK
}

func addHeaderValue(g *Guest, s []uint64, _ *Arguments) Status {
	return g.edit(s, 2, func(m *header.Map, b [][]byte) { m.Add(Lower(b[0]), string(b[1])) })
}

func replaceHeaderValue(g *Guest, s []uint64, _ *Arguments) Status {
	return g.edit(s, 2, func(m *header.Map, b [][]byte) { m.Set(Lower(b[0]), string(b[1])) })
}

func removeHeaderValue(g *Guest, s []uint64, _ *Arguments) Status {
	return g.edit(s, 1, func(m *header.Map, b [][]byte) { m.Remove(Lower(b[0])) })
}

func setHeaderPairs(g *Guest, s []uint64, _ *Arguments) Status {
	return g.edit(s, 1, func(m *header.Map, b [][]byte) {
		m.Lines = nil
		for _, h := range ParsePairs(b[0]) {
			m.Add(h.Name, h.Value)
		}
	})
}

// getHeaderPairs gives nothing, and no error, for a map that is out of reach; the Go SDK makes "not found" of that.
func getHeaderPairs(g *Guest, s []uint64, _ *Arguments) Status {
	if Map(word(s, 0)) >= mapCount {
		return BadArgument
	}
	m := g.Proxy.Readable(Map(word(s, 0)))
	if header.Count(m) == 0 {
		return g.give(nil, word(s, 1), word(s, 2))
	}
	return g.give(FormatPairs(m.Lines), word(s, 1), word(s, 2))
}

func getHeaderSize(g *Guest, s []uint64, _ *Arguments) Status {
	if Map(word(s, 0)) >= mapCount {
		return BadArgument
	}
	m := g.Proxy.Writable(Map(word(s, 0)))
	if m == nil {
		return BadArgument
	}
	return written(g.Memory.WriteUint32Le(word(s, 1), uint32(m.Bytes())))
}

// Lower folds ASCII only: header names have nothing else.
func Lower(b []byte) string {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
