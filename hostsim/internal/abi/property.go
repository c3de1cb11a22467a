package abi

import "strings"

// Properties and filter state.
var propertyFuncs = []function{
	{name: "proxy_get_property", words: 4, run: getProperty},
	{name: "proxy_set_property", words: 4, run: setProperty},
}

func getProperty(g *Guest, s []uint64, _ *Arguments) Status {
	path, ok := g.bytes(s, 0)
	if !ok {
		return InvalidMemory
	}
	value, st := g.Proxy.Property(strings.Split(string(path), "\x00"))
	if st != OK {
		return st
	}
	return g.give(value, word(s, 2), word(s, 3))
}

func setProperty(g *Guest, s []uint64, _ *Arguments) Status {
	path, ok1 := g.bytes(s, 0)
	value, ok2 := g.bytes(s, 2)
	if !ok1 || !ok2 {
		return InvalidMemory
	}
	return g.Proxy.SetProperty(string(path), value)
}
