package proxy

import (
	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/callonce/callonce/plugin/guard"
)

// stream hands the proxy's callbacks on.
type stream struct {
	types.DefaultHttpContext
	s    *guard.Stream
	held int // bytes of the body held so far
}

func action(a guard.Action) types.Action {
	if a == guard.Pause {
		return types.ActionPause
	}
	return types.ActionContinue
}

func (c *stream) OnHttpRequestHeaders(_ int, end bool) types.Action {
	return action(c.s.RequestHeaders(end))
}

func (c *stream) OnHttpRequestBody(size int, end bool) types.Action {
	c.held = size
	return action(c.s.RequestBody(size, end))
}

func (c *stream) OnHttpRequestTrailers(int) types.Action {
	return action(c.s.RequestTrailers(c.held))
}

func (c *stream) OnHttpResponseHeaders(_ int, end bool) types.Action {
	return action(c.s.ResponseHeaders(end))
}

func (c *stream) OnHttpResponseBody(size int, end bool) types.Action {
	return action(c.s.ResponseBody(size, end))
}

func (c *stream) OnHttpResponseTrailers(int) types.Action {
	return action(c.s.ResponseTrailers())
}

func (c *stream) OnHttpStreamDone() { c.s.Done() }
