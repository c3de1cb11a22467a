package abi

// Bodies and configurations.
var bodyFuncs = []function{
	{name: "proxy_get_buffer_bytes", words: 5, run: getBufferBytes},
	{name: "proxy_set_buffer_bytes", words: 5, run: setBufferBytes},
	{name: "proxy_get_buffer_status", words: 3, run: getBufferStatus},
}

// buffer is the one that the first argument names.
func (g *Guest) buffer(s []uint64) (b *[]byte, fixed bool, st Status) {
	if Buffer(word(s, 0)) >= bufferCount {
		return nil, false, BadArgument
	}
	b, fixed, ok := g.Proxy.Buffer(Buffer(word(s, 0)))
	if !ok {
		return nil, false, NotFound
	}
	return b, fixed, OK
}

func getBufferBytes(g *Guest, s []uint64, _ *Arguments) Status {
	b, _, st := g.buffer(s)
	if st != OK {
		return st
	}
	start, length := uint64(word(s, 1)), uint64(word(s, 2))
	size := uint64(len(*b))
	start = min(start, size)
	end := min(start+length, size)
	return g.give((*b)[start:end], word(s, 3), word(s, 4))
}

func setBufferBytes(g *Guest, s []uint64, _ *Arguments) Status {
	b, fixed, st := g.buffer(s)
	if st != OK {
		return st
	}
	data, ok := g.bytes(s, 3)
	if !ok {
		return InvalidMemory
	}
	if fixed {
		return BadArgument
	}
	start, length, size := uint64(word(s, 1)), uint64(word(s, 2)), uint64(len(*b))
	switch {
	case start == 0 && length == 0:
		*b = append(data, *b...)
	case start == 0 && length >= size:
		*b = data
	case start != 0 && start >= size:
		*b = append(append([]byte(nil), *b...), data...)
	default:
		// Envoy replaces a whole body, or adds before or behind it; it does not cut pieces out.
		return BadArgument
	}
	return OK
}

func getBufferStatus(g *Guest, s []uint64, _ *Arguments) Status {
	b, _, st := g.buffer(s)
	if st != OK {
		return st
	}
	return written(g.Memory.WriteUint32Le(word(s, 1), uint32(len(*b))) && g.Memory.WriteUint32Le(word(s, 2), 0))
}
