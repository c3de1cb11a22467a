package proxy

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"
)

// host is the proxy as one stream sees it.
type host struct {
	context uint32
	wake    *waker
}

func (host) RequestHeaders() ([][2]string, error) { return proxywasm.GetHttpRequestHeaders() }

func (host) RequestBody(size int) ([]byte, error) { return proxywasm.GetHttpRequestBody(0, size) }

func (host) SetRequestHeader(name, value string) error {
	return proxywasm.ReplaceHttpRequestHeader(name, value)
}

func (host) RemoveRequestHeader(name string) error { return proxywasm.RemoveHttpRequestHeader(name) }

func (host) ReplaceRequestBody(body []byte) error { return proxywasm.ReplaceHttpRequestBody(body) }

func (host) RemoveResponseHeader(name string) error { return proxywasm.RemoveHttpResponseHeader(name) }

func (host) ReplaceResponseBody(chunk []byte) error { return proxywasm.ReplaceHttpResponseBody(chunk) }

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

func (host) Resume() error { return proxywasm.ResumeHttpRequest() }

var propTotalSize = []string{"request", "total_size"}

func (host) TotalSize() uint64 {
	v, err := proxywasm.GetProperty(propTotalSize)
	if err != nil || len(v) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(v)
}

func (h host) Enter() error { return proxywasm.SetEffectiveContext(h.context) }

func (h host) Wake() { h.wake.call() }

// waker wakes its own plugin context through a shared queue. A queue belongs to the
// VM that registered its name last, so every context has a name of its own, drawn by
// chance; it is registered when it is first needed, which in most lives is once.
type waker struct {
	queue uint32
	ready bool
}

func (w *waker) call() {
	if !w.ready {
		var b [16]byte
		random(b[:])
		queue, err := proxywasm.RegisterSharedQueue("callonce/" + hex.EncodeToString(b[:]))
		if err != nil {
			return
		}
		w.queue, w.ready = queue, true
	}
	_ = proxywasm.EnqueueSharedQueue(w.queue, []byte{1})
}

// drain takes the messages out again.
func (w *waker) drain() {
	for w.ready {
		if _, err := proxywasm.DequeueSharedQueue(w.queue); err != nil {
			return
		}
	}
}
