package hostsim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/api"
)

// vm is one instance of the module. Everything here runs on the loop that owns it.
type vm struct {
	host   *Host
	loop   *loop
	number int // the worker, MainThread or Trial
	mod    api.Module
	mem    api.Memory
	ctx    context.Context
	calls  callbacks

	contexts  map[uint32]*guestContext
	nextID    uint32
	current   *guestContext
	effective uint32
	// deferred holds what must not happen inside a callback: resuming and local replies run once the module has returned.
	deferred []func()
	// stopped is set by a local reply: whatever the running callback returns, its stream goes no further.
	stopped bool

	metrics    map[uint32]vmMetric
	nextMetric [3]uint32

	callouts   map[uint32]*callout
	nextCall   uint32
	grpcCalls  map[uint32]*grpcCall
	nextGrpc   uint32
	tickers    map[uint32]*ticker
	startLines []LogLine // what was logged while a plugin starts; nil at other times
	recording  bool

	failed error
}

// guestContext is a context id of the ABI: of a plugin (stream == nil) or of a stream.
type guestContext struct {
	id     uint32
	vm     *vm
	plugin *pluginConfig
	root   *guestContext
	stream *stream
	// created says that the module has been told of the context.
	created bool
	// answer is the callout answer that the module may read at present.
	answer *calloutAnswer
	// grpcMessage is the message that a gRPC callout has brought, while its callback runs; status and statusText are what
	// proxy_get_status says of failed ones.
	grpcMessage *[]byte
	status      uint32
	statusText  string
	// configuring is set while on_configure runs: only then is the plugin configuration readable.
	configuring bool
	// ending says that on_done asked for time: proxy_done will end the context.
	ending bool
}

// callbacks are the module's exports that the host calls; nil where the module has none.
type callbacks struct {
	malloc                                                                 api.Function
	contextCreate, vmStart, configure, tick, queueReady, done, log, delete api.Function
	requestHeaders, requestBody, requestTrailers                           api.Function
	responseHeaders, responseBody, responseTrailers                        api.Function
	httpCallResponse, grpcReceive, grpcClose                               api.Function
}

type vmKey struct{}

func newVM(h *Host, l *loop, number int) (*vm, error) {
	v := &vm{host: h, loop: l, number: number, nextID: 1,
		contexts: map[uint32]*guestContext{}, metrics: map[uint32]vmMetric{}, callouts: map[uint32]*callout{}, grpcCalls: map[uint32]*grpcCall{}, tickers: map[uint32]*ticker{},
		nextMetric: [3]uint32{uint32(counter), uint32(gauge), uint32(histogram)}}
	v.ctx = context.WithValue(context.Background(), vmKey{}, v)
	mod, err := h.module.instantiate(v.ctx)
	if err != nil {
		return nil, fmt.Errorf("instantiate: %w", err)
	}
	v.mod, v.mem = mod, mod.Memory()
	if v.mem == nil {
		return nil, errors.New("instantiate: the module exports no memory")
	}
	v.contexts[0] = &guestContext{vm: v}
	v.contexts[0].root = v.contexts[0]
	v.bind()
	v.recording = true
	if _, ok := v.call(v.contexts[0], "_initialize", mod.ExportedFunction("_initialize")); !ok {
		mod.Close(v.ctx)
		return nil, &StartError{Stage: "_initialize", Lines: v.startLines, Err: v.failed}
	}
	return v, nil
}

func (v *vm) bind() {
	f := v.mod.ExportedFunction
	c := &v.calls
	if c.malloc = f("malloc"); c.malloc == nil {
		c.malloc = f("proxy_on_memory_allocate")
	}
	c.contextCreate, c.vmStart, c.configure = f("proxy_on_context_create"), f("proxy_on_vm_start"), f("proxy_on_configure")
	c.tick, c.queueReady = f("proxy_on_tick"), f("proxy_on_queue_ready")
	c.done, c.log, c.delete = f("proxy_on_done"), f("proxy_on_log"), f("proxy_on_delete")
	c.requestHeaders, c.requestBody, c.requestTrailers = f("proxy_on_request_headers"), f("proxy_on_request_body"), f("proxy_on_request_trailers")
	c.responseHeaders, c.responseBody, c.responseTrailers = f("proxy_on_response_headers"), f("proxy_on_response_body"), f("proxy_on_response_trailers")
	c.httpCallResponse = f("proxy_on_http_call_response")
	c.grpcReceive, c.grpcClose = f("proxy_on_grpc_receive"), f("proxy_on_grpc_close")
}

// call runs an export for context c. It is false when the VM has failed, before or by this call. An export that the module lacks
// counts as called, with the result 0. The caller runs runDeferred once it has acted on the result.
func (v *vm) call(c *guestContext, name string, f api.Function, args ...uint64) (uint64, bool) {
	if v.failed != nil {
		return 0, false
	}
	if f == nil {
		return 0, true
	}
	current, effective := v.current, v.effective
	v.current, v.effective = c, 0
	results, err := f.Call(v.ctx, args...)
	v.current, v.effective = current, effective
	if err != nil {
		v.fail(fmt.Errorf("%s: %w", name, err))
		return 0, false
	}
	if len(results) == 0 {
		return 0, true
	}
	return results[0], true
}

// runDeferred does what the module asked for in the callback that has just returned. Callbacks that follow from it have their own.
func (v *vm) runDeferred() {
	v.stopped = false
	actions := v.deferred
	v.deferred = nil
	for _, f := range actions {
		f()
	}
}

// fail ends the VM: no callback reaches it any more. What its streams suffer shows at their next step.
func (v *vm) fail(err error) {
	if v.failed != nil {
		return
	}
	v.failed = err
	v.release()
	v.log(LogCritical, fmt.Sprintf("VM failed: %v", err))
}

// release stops what would call the VM later.
func (v *vm) release() {
	for _, id := range v.tickIDs() {
		v.setTick(id, 0)
	}
	for _, c := range v.callouts {
		c.cancel()
	}
	for _, c := range v.grpcCalls {
		c.cancel()
	}
}

func (v *vm) close() {
	v.release()
	v.mod.Close(v.ctx)
}

func (v *vm) log(level LogLevel, msg string) {
	if v.recording {
		v.startLines = append(v.startLines, LogLine{Worker: v.number, Level: level, Text: msg})
	}
	if v.host.config.Log != nil {
		v.host.config.Log(v.number, level, msg)
	}
}

func (v *vm) newContext(p *pluginConfig, root *guestContext, s *stream) *guestContext {
	c := &guestContext{id: v.nextID, vm: v, plugin: p, root: root, stream: s}
	v.nextID++
	if root == nil {
		c.root = c
	}
	v.contexts[c.id] = c
	return c
}

// acting is the context that host calls act on: the one whose callback runs, unless the module chose another that still exists.
func (v *vm) acting() *guestContext {
	if v.effective != 0 {
		if c := v.contexts[v.effective]; c != nil {
			return c
		}
	}
	return v.current
}

// alloc asks the module for memory of its own and copies b there. 0 bytes are not asked for: the pointer is then null.
func (v *vm) alloc(b []byte) (uint32, bool) {
	if len(b) == 0 {
		return 0, true
	}
	results, err := v.calls.malloc.Call(v.ctx, uint64(len(b)))
	if err != nil || len(results) == 0 || uint32(results[0]) == 0 {
		if err != nil {
			// The trap must unwind the callback that asked, as it would if the module had called malloc itself.
			panic(err)
		}
		return 0, false
	}
	ptr := uint32(results[0])
	return ptr, v.mem.Write(ptr, b)
}

// give returns bytes to the module through a pointer and a size that it passed.
func (v *vm) give(b []byte, ptrPtr, sizePtr uint32) Status {
	ptr, ok := v.alloc(b)
	if !ok || !v.mem.WriteUint32Le(ptrPtr, ptr) || !v.mem.WriteUint32Le(sizePtr, uint32(len(b))) {
		return StatusInvalidMemory
	}
	return StatusOK
}

// read copies guest memory, for it may move or change under a slice.
func (v *vm) read(ptr, size uint32) ([]byte, bool) {
	b, ok := v.mem.Read(ptr, size)
	if !ok {
		return nil, false
	}
	return append([]byte(nil), b...), true
}

// Limits of the list of pairs that a module may pass, as proxy-wasm-cpp-host has them. A list beyond them counts as empty.
const (
	maxPairBytes = 1 << 20
	maxPairs     = 1024
)

// parsePairs reads a list of pairs in the ABI's form; a malformed one counts as empty.
func parsePairs(b []byte) []Header {
	if len(b) < 4 || len(b) > maxPairBytes {
		return nil
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n > maxPairs || 4+8*n > len(b) {
		return nil
	}
	out := make([]Header, 0, n)
	pos := 4 + 8*n
	next := func(size uint32) (string, bool) {
		end := uint64(pos) + uint64(size)
		if end >= uint64(len(b)) || b[end] != 0 {
			return "", false
		}
		s := string(b[pos:end])
		pos = int(end) + 1
		return s, true
	}
	for i := range n {
		name, ok := next(binary.LittleEndian.Uint32(b[4+8*i:]))
		if !ok {
			return nil
		}
		value, ok := next(binary.LittleEndian.Uint32(b[8+8*i:]))
		if !ok {
			return nil
		}
		out = append(out, Header{Name: name, Value: value})
	}
	if pos != len(b) {
		return nil
	}
	return out
}

func formatPairs(lines []Header) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(lines)))
	for _, h := range lines {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(h.Name)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(h.Value)))
	}
	for _, h := range lines {
		b = append(append(b, h.Name...), 0)
		b = append(append(b, h.Value...), 0)
	}
	return b
}
