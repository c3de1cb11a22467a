package abi

import (
	"time"
)

// Streams, contexts, ticks, logs and the odds and ends of the ABI.
var streamFuncs = []function{
	{name: "proxy_log", words: 3, run: guestLog},
	{name: "proxy_get_log_level", words: 1, run: getLogLevel},
	{name: "proxy_send_local_response", words: 8, run: sendLocalResponse},
	{name: "proxy_continue_stream", words: 1, run: continueStream},
	{name: "proxy_close_stream", words: 1, run: closeStream},
	{name: "proxy_set_effective_context", words: 1, run: setEffectiveContext},
	{name: "proxy_done", words: 0, run: pluginDone},
	{name: "proxy_set_tick_period_milliseconds", words: 1, run: setTickPeriod},
	{name: "proxy_get_current_time_nanoseconds", words: 1, run: getCurrentTime},
	{name: "proxy_get_status", words: 3, run: getStatus},
	{name: "proxy_call_foreign_function", words: 6, run: callForeignFunction},
}

func guestLog(g *Guest, s []uint64, _ *Arguments) Status {
	if LogLevel(word(s, 0)) > LogCritical {
		return BadArgument
	}
	msg, ok := g.bytes(s, 1)
	if !ok {
		return InvalidMemory
	}
	g.Proxy.Log(LogLevel(word(s, 0)), string(msg))
	return OK
}

func getLogLevel(g *Guest, s []uint64, _ *Arguments) Status {
	return written(g.Memory.WriteUint32Le(word(s, 0), uint32(LogTrace)))
}

// sendLocalResponse never fails for want of a stream: Envoy says OK to a reply that nobody will get.
func sendLocalResponse(g *Guest, s []uint64, _ *Arguments) Status {
	details, ok1 := g.bytes(s, 1)
	body, ok2 := g.bytes(s, 3)
	pairs, ok3 := g.bytes(s, 5)
	if !ok1 || !ok2 || !ok3 {
		return InvalidMemory
	}
	g.Proxy.LocalReply(Reply{Status: int(word(s, 0)), Details: string(details), Body: body, Headers: ParsePairs(pairs)})
	return OK
}

func continueStream(g *Guest, s []uint64, _ *Arguments) Status {
	d := Direction(word(s, 0))
	if d != Request && d != Response {
		return BadArgument
	}
	g.Proxy.Continue(d)
	return OK
}

func closeStream(g *Guest, s []uint64, _ *Arguments) Status {
	d := Direction(word(s, 0))
	if d > lastDirection {
		return BadArgument
	}
	g.Proxy.Close(d)
	return OK
}

func setEffectiveContext(g *Guest, s []uint64, _ *Arguments) Status {
	return g.Proxy.SetEffectiveContext(word(s, 0))
}

func pluginDone(g *Guest, _ []uint64, _ *Arguments) Status { return g.Proxy.Done() }

func setTickPeriod(g *Guest, s []uint64, _ *Arguments) Status {
	g.Proxy.SetTickPeriod(time.Duration(word(s, 0)) * time.Millisecond)
	return OK
}

func getCurrentTime(g *Guest, s []uint64, _ *Arguments) Status {
	return written(g.Memory.WriteUint64Le(word(s, 0), uint64(g.Proxy.Now().UnixNano())))
}

func getStatus(g *Guest, s []uint64, _ *Arguments) Status {
	code, text := g.Proxy.CallStatus()
	if !g.Memory.WriteUint32Le(word(s, 0), uint32(code)) {
		return InvalidMemory
	}
	return g.give([]byte(text), word(s, 1), word(s, 2))
}

// callForeignFunction leaves the module without a result where there is none, as Envoy does: no memory is asked of it.
func callForeignFunction(g *Guest, s []uint64, _ *Arguments) Status {
	name, ok1 := g.bytes(s, 0)
	argument, ok2 := g.bytes(s, 2)
	if !ok1 || !ok2 {
		return InvalidMemory
	}
	result, st := g.Proxy.Foreign(string(name), argument)
	if st != OK {
		return st
	}
	if len(result) > 0 {
		return g.give(result, word(s, 4), word(s, 5))
	}
	if word(s, 4) != 0 && !g.Memory.WriteUint32Le(word(s, 4), 0) || word(s, 5) != 0 && !g.Memory.WriteUint32Le(word(s, 5), 0) {
		return InvalidMemory
	}
	return OK
}
