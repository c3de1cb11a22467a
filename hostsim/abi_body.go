package hostsim

// The buffers of the ABI.
const (
	bufferRequestBody uint32 = iota
	bufferResponseBody
	bufferDownstream
	bufferUpstream
	bufferCalloutBody
	bufferGrpc
	bufferVMConfig
	bufferPluginConfig
	bufferCallData
	bufferCount
)

// Bodies and configurations.
var bodyFuncs = []hostFunc{
	{name: "proxy_get_buffer_bytes", words: 5, run: getBufferBytes},
	{name: "proxy_set_buffer_bytes", words: 5, run: setBufferBytes},
	{name: "proxy_get_buffer_status", words: 3, run: getBufferStatus},
}

// buffer is the buffer of that kind; ok is false where there is none. A pointer to a body's bytes allows changing them.
func (c *guestContext) buffer(kind uint32) (b *[]byte, fixed, ok bool) {
	switch kind {
	case bufferVMConfig:
		return &c.vm.host.config.VMConfig, true, true
	case bufferPluginConfig:
		if !c.configuring {
			return nil, true, false
		}
		return &c.plugin.bytes, true, true
	case bufferCalloutBody:
		if a := c.root.answer; a != nil {
			return &a.body, true, true
		}
		return nil, true, false
	case bufferGrpc:
		if m := c.root.grpcMessage; m != nil {
			return m, true, true
		}
	case bufferRequestBody:
		if c.stream != nil {
			return c.stream.request.body(), false, true
		}
	case bufferResponseBody:
		if c.stream != nil {
			return c.stream.response.body(), false, true
		}
	}
	var none []byte
	return &none, true, true
}

func getBufferBytes(v *vm, s []uint64, _ *Call) Status {
	if word(s, 0) >= bufferCount {
		return StatusBadArgument
	}
	b, _, ok := v.acting().buffer(word(s, 0))
	if !ok {
		return StatusNotFound
	}
	start, length := uint64(word(s, 1)), uint64(word(s, 2))
	size := uint64(len(*b))
	start = min(start, size)
	end := min(start+length, size)
	return v.give((*b)[start:end], word(s, 3), word(s, 4))
}

func setBufferBytes(v *vm, s []uint64, _ *Call) Status {
	if word(s, 0) >= bufferCount {
		return StatusBadArgument
	}
	b, fixed, ok := v.acting().buffer(word(s, 0))
	if !ok {
		return StatusNotFound
	}
	data, ok := v.bytesArg(s, 3)
	if !ok {
		return StatusInvalidMemory
	}
	if fixed {
		return StatusBadArgument
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
		return StatusBadArgument
	}
	return StatusOK
}

func getBufferStatus(v *vm, s []uint64, _ *Call) Status {
	if word(s, 0) >= bufferCount {
		return StatusBadArgument
	}
	b, _, ok := v.acting().buffer(word(s, 0))
	if !ok {
		return StatusNotFound
	}
	if !v.mem.WriteUint32Le(word(s, 1), uint32(len(*b))) || !v.mem.WriteUint32Le(word(s, 2), 0) {
		return StatusInvalidMemory
	}
	return StatusOK
}
