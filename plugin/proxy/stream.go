package proxy

import (
	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"
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

// host is the proxy as one stream sees it.
type host struct{ context uint32 }

func (host) RequestHeaders() ([][2]string, error) { return proxywasm.GetHttpRequestHeaders() }

func (host) RequestBody(size int) ([]byte, error) { return proxywasm.GetHttpRequestBody(0, size) }

func (host) SetRequestHeader(name, value string) error {
	return proxywasm.ReplaceHttpRequestHeader(name, value)
}

func (host) RemoveRequestHeader(name string) error { return proxywasm.RemoveHttpRequestHeader(name) }

func (host) ResponseHeaders() ([][2]string, error) { return proxywasm.GetHttpResponseHeaders() }

func (host) ResponseBody(size int) ([]byte, error) { return proxywasm.GetHttpResponseBody(0, size) }

func (host) Property(path []string) ([]byte, bool) {
	v, err := proxywasm.GetProperty(path)
	return v, err == nil
}

func (host) SetState(name, value string) {
	if err := proxywasm.SetProperty([]string{name}, []byte(value)); err != nil {
		proxywasm.LogWarn("callonce: the proxy took no filter state: " + err.Error())
	}
}

func (host) Reply(status int, headers [][2]string, body []byte) error {
	return proxywasm.SendHttpResponse(uint32(status), headers, body, -1)
}

func (h host) Resume() error {
	if err := proxywasm.SetEffectiveContext(h.context); err != nil {
		return err
	}
	return proxywasm.ResumeHttpRequest()
}
