package abi

import "github.com/callonce/callonce/plugin/internal/guard"

// The callbacks. proxy_on_done is not exported: proxy_on_delete says that a stream has ended
// as well, and each costs a call into the VM. What proxy_on_delete publishes comes too late for
// the access log, so a call whose client leaves needs proxy_on_log.

var (
	plugins []*plugin
	open    streams
)

func pluginOf(id uint32) *plugin {
	for _, p := range plugins {
		if p.id == id {
			return p
		}
	}
	return nil
}

//go:wasmexport proxy_on_vm_start
func onVMStart(context, size uint32) uint32 { return 1 }

//go:wasmexport proxy_on_context_create
func onContextCreate(id, root uint32) {
	if root == 0 {
		plugins = append(plugins, &plugin{id: id})
		return
	}
	p := pluginOf(root)
	if p == nil || p.guard == nil {
		panic("a stream of a plugin that has not started")
	}
	tellFigures()
	open.add(p.begin(id))
}

//go:wasmexport proxy_on_configure
func onConfigure(context, size uint32) uint32 {
	mem.begin()
	if p := pluginOf(context); p != nil && p.start(size) {
		return 1
	}
	return 0
}

//go:wasmexport proxy_on_tick
func onTick(context uint32) {
	mem.begin()
	if p := pluginOf(context); p != nil && p.guard != nil {
		if p.period > 0 {
			_ = setTicks(p.period) // without it they come sooner
			p.period = 0
		}
		p.guard.Tick(now())
	}
}

//go:wasmexport proxy_on_queue_ready
func onQueueReady(context, queue uint32) {
	mem.begin()
	if p := pluginOf(context); p != nil && p.guard != nil {
		p.waker.drain(p.guard.Woken)
		p.guard.Look()
	}
}

//go:wasmexport proxy_on_request_headers
func onRequestHeaders(id, count, end uint32) uint32 {
	s := open.get(id)
	if s == nil {
		// Going on would let a call through that nobody has looked at.
		panic("the headers of a stream that was never created")
	}
	mem.begin()
	return s.after(s.guard.RequestHeaders(end != 0))
}

//go:wasmexport proxy_on_request_body
func onRequestBody(id, size, end uint32) uint32 {
	s := open.get(id)
	if s == nil {
		return actionContinue
	}
	mem.begin()
	s.buffered = int(size)
	return s.after(s.guard.RequestBody(s.buffered, end != 0))
}

//go:wasmexport proxy_on_request_trailers
func onRequestTrailers(id, count uint32) uint32 {
	s := open.get(id)
	if s == nil {
		return actionContinue
	}
	mem.begin()
	return s.after(s.guard.RequestTrailers(s.buffered))
}

//go:wasmexport proxy_on_response_headers
func onResponseHeaders(id, count, end uint32) uint32 {
	s := open.get(id)
	if s == nil {
		return actionContinue
	}
	mem.begin()
	return s.after(s.guard.ResponseHeaders(end != 0))
}

//go:wasmexport proxy_on_response_body
func onResponseBody(id, size, end uint32) uint32 {
	s := open.get(id)
	if s == nil {
		return actionContinue
	}
	mem.begin()
	return s.after(s.guard.ResponseBody(int(size), end != 0))
}

//go:wasmexport proxy_on_response_trailers
func onResponseTrailers(id, count uint32) uint32 {
	s := open.get(id)
	if s == nil {
		return actionContinue
	}
	mem.begin()
	return s.after(s.guard.ResponseTrailers())
}

//go:wasmexport proxy_on_log
func onLog(id uint32) {
	if s := open.get(id); s != nil {
		mem.begin()
		s.guard.Ended()
	}
}

//go:wasmexport proxy_on_delete
func onDelete(id uint32) {
	if s := open.remove(id); s != nil {
		mem.begin()
		s.guard.Done()
		s.plugin.end(s)
		return
	}
	for i, p := range plugins {
		if p.id == id {
			if p.guard != nil {
				mem.begin()
				p.guard.Close()
			}
			plugins = append(plugins[:i:i], plugins[i+1:]...)
			return
		}
	}
}

const (
	actionContinue = 0
	actionPause    = 1
)

// after ends a callback of a stream. One that the guard has no more to do with is
// forgotten at once, so that its other callbacks cost next to nothing.
func (s *stream) after(a guard.Action) uint32 {
	switch {
	case s.guard.Finished():
		open.remove(s.id)
		s.plugin.end(s)
	case !s.guard.Waits():
		s.releaseHead()
	}
	if a == guard.Pause {
		return actionPause
	}
	return actionContinue
}
