package abi

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"unsafe"

	"github.com/callonce/callonce/plugin/internal/boot"
	"github.com/callonce/callonce/plugin/internal/guard"
	"github.com/callonce/callonce/plugin/internal/scratch"
)

var _ guard.Host = (*stream)(nil)

// args are what one host call is given: an attribute's path, or the headers of a reply.
var args []byte

// responseLines are the response's headers, until the callback returns.
var responseLines [][2]string

// RequestHeaders implements guard.Host. They lie in the stream's own buffer, while it
// waits.
func (s *stream) RequestHeaders() ([][2]string, error) {
	mem.lend(&s.head)
	var err error
	s.lines, err = headers(ofRequest, s.lines)
	s.bufferHead()
	return s.lines, err
}

// Crowded implements guard.Host.
func (*stream) Crowded() bool { return headsBuffered > boot.MostHeadsBuffered }

// ResponseHeaders implements guard.Host.
func (s *stream) ResponseHeaders() ([][2]string, error) {
	var err error
	responseLines, err = headers(ofResponse, scratch.Keep(responseLines))
	return responseLines, err
}

func headers(kind uint32, lines [][2]string) ([][2]string, error) {
	b, st := taken(proxyGetHeaderMapPairs(kind, pBytes(), pSize()))
	return readHeaders(lines, b, st)
}

// HasRequestHeader implements guard.Host.
func (*stream) HasRequestHeader(name string) bool {
	p, n := pText(name)
	_, st := taken(proxyGetHeaderMapValue(ofRequest, p, n, pBytes(), pSize()))
	// Any other status is for RequestHeaders to tell.
	return st != statusNotFound
}

// SetRequestHeader implements guard.Host.
func (*stream) SetRequestHeader(name, value string) error {
	p, n := pText(name)
	v, size := pText(value)
	return proxyReplaceHeaderMapValue(ofRequest, p, n, v, size).err()
}

// RemoveRequestHeader implements guard.Host.
func (*stream) RemoveRequestHeader(name string) error {
	p, n := pText(name)
	return proxyRemoveHeaderMapValue(ofRequest, p, n).err()
}

// RemoveResponseHeader implements guard.Host.
func (*stream) RemoveResponseHeader(name string) error {
	p, n := pText(name)
	return proxyRemoveHeaderMapValue(ofResponse, p, n).err()
}

// RequestBody implements guard.Host.
func (*stream) RequestBody(size int) ([]byte, error) { return body(requestBody, size) }

// ResponseBody implements guard.Host.
func (*stream) ResponseBody(size int) ([]byte, error) { return body(responseBody, size) }

func body(kind uint32, size int) ([]byte, error) {
	b, st := taken(proxyGetBufferBytes(kind, 0, uint32(size), pBytes(), pSize()))
	return b, st.err()
}

// ReplaceRequestBody implements guard.Host.
func (*stream) ReplaceRequestBody(b []byte) error { return replace(requestBody, b) }

// ReplaceResponseBody implements guard.Host.
func (*stream) ReplaceResponseBody(b []byte) error { return replace(responseBody, b) }

func replace(kind uint32, b []byte) error {
	return proxySetBufferBytes(kind, 0, math.MaxInt32, unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b))).err()
}

// Property implements guard.Host.
func (*stream) Property(path []string) ([]byte, bool) {
	args = appendPath(scratch.Keep(args), path)
	v, st := taken(proxyGetProperty(unsafe.Pointer(unsafe.SliceData(args)), uint32(len(args)), pBytes(), pSize()))
	return v, st == statusOK
}

// Attribute implements guard.Host.
func (*stream) Attribute(path []string) ([]byte, guard.Presence) {
	args = appendPath(scratch.Keep(args), path)
	v, st := taken(proxyGetProperty(unsafe.Pointer(unsafe.SliceData(args)), uint32(len(args)), pBytes(), pSize()))
	switch st {
	case statusOK:
		return v, guard.Present
	case statusNotFound:
		return nil, guard.Missing
	}
	return nil, guard.Unreadable
}

// SetState implements guard.Host.
func (*stream) SetState(name, value string) {
	p, n := pText(name)
	v, size := pText(value)
	if st := proxySetProperty(p, n, v, size); st != statusOK {
		logLine("the proxy took no filter state: " + st.Error())
	}
}

// Reply implements guard.Host.
func (s *stream) Reply(code int, headers [][2]string, body []byte) error {
	args = appendPairs(scratch.Keep(args), headers)
	st := proxySendLocalResponse(uint32(code), nil, 0, unsafe.Pointer(unsafe.SliceData(body)), uint32(len(body)),
		unsafe.Pointer(unsafe.SliceData(args)), uint32(len(args)), -1)
	s.judged()
	return st.err()
}

// Resume implements guard.Host.
func (s *stream) Resume() error {
	s.judged()
	return proxyContinueStream(requestStream).err()
}

// judged lets go of the headers of a request that was judged outside of its callbacks, after which no after() comes.
func (s *stream) judged() {
	if !s.guard.Waits() {
		s.releaseHead()
	}
}

var totalSize = []string{"request", "total_size"}

// TotalSize implements guard.Host.
func (s *stream) TotalSize() uint64 {
	v, ok := s.Property(totalSize)
	if !ok || len(v) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(v)
}

// Enter implements guard.Host.
func (s *stream) Enter() error { return proxySetEffectiveContext(s.id).err() }

// Wake implements guard.Host.
func (s *stream) Wake() { s.plugin.waker.call() }

func (w *waker) call() {
	if queue, ok := w.Queue(); ok {
		w.Send(queue, oneByte)
	}
}

// oneByte is a message that only wakes.
var oneByte = []byte{1}

// Queue implements guard.Queues.
func (w *waker) Queue() (uint32, bool) {
	if !w.ready {
		var b [16]byte
		random(b[:])
		p, n := pText("callonce/" + hex.EncodeToString(b[:]))
		if proxyRegisterSharedQueue(p, n, unsafe.Pointer(&returned.number)) != statusOK {
			return 0, false
		}
		w.queue, w.ready = uint32(returned.number), true
	}
	return w.queue, true
}

// Send implements guard.Queues. It may fail: a tick comes anyway.
func (*waker) Send(queue uint32, message []byte) {
	_ = proxyEnqueueSharedQueue(queue, unsafe.Pointer(unsafe.SliceData(message)), uint32(len(message)))
}

// drain takes the messages out again, and hands them on.
func (w *waker) drain(to func(message []byte)) {
	for w.ready {
		message, st := taken(proxyDequeueSharedQueue(w.queue, pBytes(), pSize()))
		if st != statusOK {
			return
		}
		to(message)
	}
}
