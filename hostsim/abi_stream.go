package hostsim

import (
	"time"
)

// Streams, contexts, ticks, logs and the odds and ends of the ABI.
var streamFuncs = []hostFunc{
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

func guestLog(v *vm, s []uint64, _ *Call) Status {
	if LogLevel(word(s, 0)) > LogCritical {
		return StatusBadArgument
	}
	msg, ok := v.bytesArg(s, 1)
	if !ok {
		return StatusInvalidMemory
	}
	v.log(LogLevel(word(s, 0)), string(msg))
	return StatusOK
}

func getLogLevel(v *vm, s []uint64, _ *Call) Status {
	if !v.mem.WriteUint32Le(word(s, 0), uint32(LogTrace)) {
		return StatusInvalidMemory
	}
	return StatusOK
}

// sendLocalResponse never fails for want of a stream: Envoy says OK to a reply that nobody will get.
func sendLocalResponse(v *vm, s []uint64, _ *Call) Status {
	details, ok1 := v.bytesArg(s, 1)
	body, ok2 := v.bytesArg(s, 3)
	pairs, ok3 := v.bytesArg(s, 5)
	if !ok1 || !ok2 || !ok3 {
		return StatusInvalidMemory
	}
	if st := v.acting().stream; st != nil {
		r := localReply{status: int(word(s, 0)), details: string(details), body: body, headers: parsePairs(pairs)}
		v.deferred = append(v.deferred, func() { st.localReply(r) })
	}
	v.stopped = true
	return StatusOK
}

const (
	streamRequest  = 0
	streamResponse = 1
	streamUpstream = 3
)

// continueStream always takes the request's headers out of reach, whichever direction resumes: Envoy does so too.
func continueStream(v *vm, s []uint64, _ *Call) Status {
	direction := word(s, 0)
	if direction != streamRequest && direction != streamResponse {
		return StatusBadArgument
	}
	st := v.acting().stream
	if st == nil {
		return StatusOK
	}
	l := &st.request
	if direction == streamResponse {
		l = &st.response
	}
	v.deferred = append(v.deferred, func() { st.resume(l) })
	st.request.openHeaders, st.request.openTrailers, st.request.chunk = nil, nil, nil
	return StatusOK
}

func closeStream(v *vm, s []uint64, _ *Call) Status {
	if word(s, 0) > streamUpstream {
		return StatusBadArgument
	}
	if st := v.acting().stream; st != nil && word(s, 0) <= streamResponse {
		v.deferred = append(v.deferred, func() { st.cut(failStreamDetails, 0) })
		v.stopped = true
	}
	return StatusOK
}

func setEffectiveContext(v *vm, s []uint64, _ *Call) Status {
	if v.contexts[word(s, 0)] == nil {
		return StatusBadArgument
	}
	v.effective = word(s, 0)
	return StatusOK
}

func pluginDone(v *vm, _ []uint64, _ *Call) Status { return v.finishPlugin(v.acting()) }

func setTickPeriod(v *vm, s []uint64, _ *Call) Status {
	v.setTick(v.acting().root.id, time.Duration(word(s, 0))*time.Millisecond)
	return StatusOK
}

func getCurrentTime(v *vm, s []uint64, _ *Call) Status {
	if !v.mem.WriteUint64Le(word(s, 0), uint64(v.host.clock.Now().UnixNano())) {
		return StatusInvalidMemory
	}
	return StatusOK
}

// getStatus tells of a callout's failure while its callback runs. The code of a gRPC callout stays (measured on 1.40), until another
// failure's.
func getStatus(v *vm, s []uint64, _ *Call) Status {
	root := v.acting().root
	code, text := Status(root.status), root.statusText
	if a := root.answer; a != nil && a.reset {
		code, text = StatusBrokenConn, "reset"
	}
	if !v.mem.WriteUint32Le(word(s, 0), uint32(code)) {
		return StatusInvalidMemory
	}
	return v.give([]byte(text), word(s, 1), word(s, 2))
}

// callForeignFunction knows only the function with which SDKs clear the route cache, which has no effect here.
func callForeignFunction(v *vm, s []uint64, _ *Call) Status {
	name, ok := v.bytesArg(s, 0)
	if !ok {
		return StatusInvalidMemory
	}
	if string(name) != "clear_route_cache" {
		return StatusNotFound
	}
	if word(s, 4) != 0 && !v.mem.WriteUint32Le(word(s, 4), 0) || word(s, 5) != 0 && !v.mem.WriteUint32Le(word(s, 5), 0) {
		return StatusInvalidMemory
	}
	return StatusOK
}
