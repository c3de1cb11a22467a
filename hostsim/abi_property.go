package hostsim

import "strings"

// Properties and filter state.
var propertyFuncs = []hostFunc{
	{name: "proxy_get_property", words: 4, run: getProperty},
	{name: "proxy_set_property", words: 4, run: setProperty},
}

func getProperty(v *vm, s []uint64, _ *Call) Status {
	path, ok := v.bytesArg(s, 0)
	if !ok {
		return StatusInvalidMemory
	}
	value, st := v.acting().property(strings.Split(string(path), "\x00"))
	if st != StatusOK {
		return st
	}
	return v.give(value, word(s, 2), word(s, 3))
}

// setProperty writes the stream's filter state. The name is the path as the module gave it, so that only paths of one element can be
// read again, by the module or in an access log.
func setProperty(v *vm, s []uint64, _ *Call) Status {
	path, ok1 := v.bytesArg(s, 0)
	value, ok2 := v.bytesArg(s, 2)
	if !ok1 || !ok2 {
		return StatusInvalidMemory
	}
	st := v.acting().stream
	if st == nil {
		return StatusNotFound
	}
	if st.filterState == nil {
		st.filterState = map[string][]byte{}
	}
	st.filterState[string(path)] = value
	return StatusOK
}
