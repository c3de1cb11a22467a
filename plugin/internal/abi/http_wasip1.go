package abi

import (
	"time"
	"unsafe"
)

//go:wasmimport env proxy_http_call
//go:noescape
func proxyHTTPCall(cluster unsafe.Pointer, clusterSize uint32, headers unsafe.Pointer, headersSize uint32, body unsafe.Pointer, bodySize uint32,
	trailers unsafe.Pointer, trailersSize uint32, timeout uint32, token unsafe.Pointer) status

const (
	ofHTTPResponse   = 6 // headers
	httpResponseBody = 4 // buffer
)

// calls are the filter's own. What comes of one is the plugin context's, whichever stream asked.
type calls struct{}

// Call implements guard.Calls.
func (calls) Call(cluster string, lines [][2]string, body []byte, timeout time.Duration) (uint32, error) {
	args = appendPairs(args[:0], lines)
	name, nameSize := pText(cluster)
	returned.number = 0
	st := proxyHTTPCall(name, nameSize, unsafe.Pointer(unsafe.SliceData(args)), uint32(len(args)), unsafe.Pointer(unsafe.SliceData(body)), uint32(len(body)),
		nil, 0, uint32(max(timeout.Milliseconds(), 1)), unsafe.Pointer(&returned.number))
	return uint32(returned.number), st.err()
}

//go:wasmexport proxy_on_http_call_response
func onHTTPCallResponse(context, token, count, size, trailers uint32) {
	mem.begin()
	p := pluginOf(context)
	if p == nil || p.guard == nil {
		return
	}
	if count == 0 {
		p.guard.HTTPEnded(token, nil, nil)
		return
	}
	lines, err := headers(ofHTTPResponse, nil)
	if err != nil {
		p.guard.HTTPEnded(token, nil, nil)
		return
	}
	answer, st := taken(proxyGetBufferBytes(httpResponseBody, 0, size, pBytes(), pSize()))
	if st != statusOK && size > 0 {
		p.guard.HTTPEnded(token, nil, nil)
		return
	}
	p.guard.HTTPEnded(token, lines, answer)
}
