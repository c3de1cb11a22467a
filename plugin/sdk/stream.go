package main

import (
	"encoding/binary"

	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"
	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/callonce/callonce/plugin/internal/boot"
	"github.com/callonce/callonce/plugin/internal/guard"
)

// stream is one request as the SDK knows it. It is the guard's host.
type stream struct {
	types.DefaultHttpContext
	id       uint32
	plugin   *plugin
	guard    *guard.Stream
	buffered int  // bytes of the body held so far
	heads    int  // bytes of its headers that count as headsBuffered
	over     bool // the guard has no more to do with it
}

var (
	_ guard.Host        = (*stream)(nil)
	_ types.HttpContext = (*stream)(nil)
)

// headsBuffered is the bytes that the headers of requests take that wait.
var headsBuffered int

// after ends a callback.
func (s *stream) after(a guard.Action) types.Action {
	if s.guard.Finished() {
		s.over = true
	}
	s.judged()
	if a == guard.Pause {
		return types.ActionPause
	}
	return types.ActionContinue
}

// judged lets go of the headers of a request that does not wait any more.
func (s *stream) judged() {
	if s.over || !s.guard.Waits() {
		headsBuffered -= s.heads
		s.heads = 0
	}
}

func (s *stream) OnHttpRequestHeaders(_ int, end bool) types.Action {
	return s.after(s.guard.RequestHeaders(end))
}

func (s *stream) OnHttpRequestBody(size int, end bool) types.Action {
	if s.over {
		return types.ActionContinue
	}
	s.buffered = size
	return s.after(s.guard.RequestBody(size, end))
}

func (s *stream) OnHttpRequestTrailers(int) types.Action {
	if s.over {
		return types.ActionContinue
	}
	return s.after(s.guard.RequestTrailers(s.buffered))
}

func (s *stream) OnHttpResponseHeaders(_ int, end bool) types.Action {
	if s.over {
		return types.ActionContinue
	}
	return s.after(s.guard.ResponseHeaders(end))
}

func (s *stream) OnHttpResponseBody(size int, end bool) types.Action {
	if s.over {
		return types.ActionContinue
	}
	return s.after(s.guard.ResponseBody(size, end))
}

func (s *stream) OnHttpResponseTrailers(int) types.Action {
	if s.over {
		return types.ActionContinue
	}
	return s.after(s.guard.ResponseTrailers())
}

// OnHttpStreamDone is called for proxy_on_log. Of proxy_on_delete, which follows, the SDK tells nobody.
func (s *stream) OnHttpStreamDone() {
	if s.over {
		return
	}
	s.guard.Ended()
	s.guard.Done()
	s.over = true
	s.judged()
}

// RequestHeaders implements guard.Host.
func (s *stream) RequestHeaders() ([][2]string, error) {
	lines, err := headers(proxywasm.GetHttpRequestHeaders)
	n := 0
	for _, l := range lines {
		n += len(l[0]) + len(l[1]) + len("12345678\x00\x00")
	}
	headsBuffered += n - s.heads
	s.heads = n
	return lines, err
}

// Crowded implements guard.Host.
func (*stream) Crowded() bool { return headsBuffered > boot.MostHeadsBuffered }

// ResponseHeaders implements guard.Host.
func (*stream) ResponseHeaders() ([][2]string, error) {
	return headers(proxywasm.GetHttpResponseHeaders)
}

// headers reads a list of headers. The SDK panics at one that is none.
func headers(get func() ([][2]string, error)) (lines [][2]string, err error) {
	defer func() {
		if recover() != nil {
			lines, err = nil, parseFailure
		}
	}()
	lines, err = get()
	switch {
	case err != nil:
		return nil, told(err)
	case len(lines) == 0:
		return nil, notFound
	}
	return lines, nil
}

// HasRequestHeader implements guard.Host.
func (*stream) HasRequestHeader(name string) bool {
	_, err := proxywasm.GetHttpRequestHeader(name)
	return err != types.ErrorStatusNotFound
}

// SetRequestHeader implements guard.Host.
func (*stream) SetRequestHeader(name, value string) error {
	return told(proxywasm.ReplaceHttpRequestHeader(name, value))
}

// RemoveRequestHeader implements guard.Host.
func (*stream) RemoveRequestHeader(name string) error {
	return told(proxywasm.RemoveHttpRequestHeader(name))
}

// RemoveResponseHeader implements guard.Host.
func (*stream) RemoveResponseHeader(name string) error {
	return told(proxywasm.RemoveHttpResponseHeader(name))
}

// RequestBody implements guard.Host.
func (*stream) RequestBody(size int) ([]byte, error) {
	b, err := proxywasm.GetHttpRequestBody(0, size)
	return b, told(err)
}

// ResponseBody implements guard.Host.
func (*stream) ResponseBody(size int) ([]byte, error) {
	b, err := proxywasm.GetHttpResponseBody(0, size)
	return b, told(err)
}

// ReplaceRequestBody implements guard.Host.
func (*stream) ReplaceRequestBody(b []byte) error { return told(proxywasm.ReplaceHttpRequestBody(b)) }

// ReplaceResponseBody implements guard.Host.
func (*stream) ReplaceResponseBody(b []byte) error {
	return told(proxywasm.ReplaceHttpResponseBody(b))
}

func property(path []string) ([]byte, bool) {
	v, err := proxywasm.GetProperty(path)
	return v, err == nil
}

// Property implements guard.Host.
func (*stream) Property(path []string) ([]byte, bool) { return property(path) }

// Attribute implements guard.Host.
func (*stream) Attribute(path []string) ([]byte, guard.Presence) {
	switch v, err := proxywasm.GetProperty(path); err {
	case nil:
		return v, guard.Present
	case types.ErrorStatusNotFound:
		return nil, guard.Missing
	default:
		return nil, guard.Unreadable
	}
}

// SetState implements guard.Host. The SDK takes no empty value: where there was none before, none is the same to who reads it.
func (*stream) SetState(name, value string) {
	if value == "" {
		return
	}
	if err := proxywasm.SetProperty([]string{name}, []byte(value)); err != nil {
		warn("the proxy took no filter state: " + told(err).Error())
	}
}

// Reply implements guard.Host.
func (s *stream) Reply(code int, headers [][2]string, body []byte) error {
	const noGRPC = -1
	err := proxywasm.SendHttpResponse(uint32(code), headers, body, noGRPC)
	s.judged()
	return told(err)
}

// Resume implements guard.Host.
func (s *stream) Resume() error {
	s.judged()
	return told(proxywasm.ResumeHttpRequest())
}

var totalSize = []string{"request", "total_size"}

// TotalSize implements guard.Host.
func (*stream) TotalSize() uint64 {
	v, ok := property(totalSize)
	if !ok || len(v) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(v)
}

// Enter implements guard.Host.
func (s *stream) Enter() error { return told(proxywasm.SetEffectiveContext(s.id)) }

// Wake implements guard.Host.
func (s *stream) Wake() {
	if id, ok := s.plugin.queue.Queue(); ok {
		s.plugin.queue.Send(id, []byte{1})
	}
}
