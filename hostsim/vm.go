package hostsim

import (
	"errors"
	"fmt"

	"github.com/callonce/callonce/hostsim/internal/abi"
	"github.com/callonce/callonce/hostsim/internal/wasm"
)

// vm is one VM with the contexts in it. Everything here runs on the loop that owns it.
type vm struct {
	host   *Host
	loop   *loop
	number int // the worker, MainThread or Trial
	code   *wasm.VM

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

	failed  error
	printed []byte // to standard error, in the running callback
}

func newVM(h *Host, l *loop, number int) (*vm, error) {
	v := &vm{host: h, loop: l, number: number, nextID: 1,
		contexts: map[uint32]*guestContext{}, metrics: map[uint32]vmMetric{}, callouts: map[uint32]*callout{}, grpcCalls: map[uint32]*grpcCall{}, tickers: map[uint32]*ticker{},
		nextMetric: [3]uint32{uint32(abi.Counter), uint32(abi.Gauge), uint32(abi.Histogram)}}
	code, err := h.module.code.Start(v)
	if err != nil {
		return nil, err
	}
	v.code = code
	v.contexts[0] = &guestContext{vm: v}
	v.contexts[0].root = v.contexts[0]
	v.recording = true
	if _, ok := v.call(v.contexts[0], "_initialize"); !ok {
		v.code.Close()
		return nil, &StartError{Stage: "_initialize", Lines: v.startLines, Err: v.failed}
	}
	return v, nil
}

// call runs an export for context c. It is false when the VM has failed, before or by this call. An export that the module lacks
// counts as called, with the result 0. The caller runs runDeferred once it has acted on the result.
func (v *vm) call(c *guestContext, export string, args ...uint64) (uint64, bool) {
	if v.failed != nil {
		return 0, false
	}
	current, effective := v.current, v.effective
	v.current, v.effective = c, 0
	if current == nil {
		v.printed = nil
	}
	result, err := v.code.Call(export, args...)
	v.current, v.effective = current, effective
	if err != nil {
		v.fail(err)
		return 0, false
	}
	return result, true
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
	v.Log(LogCritical, fmt.Sprintf("VM failed: %v", err))
	if f := v.host.config.Hooks.Failed; f != nil && !errors.Is(err, errCrash) {
		f(v.number, err, string(v.printed))
	}
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
	v.code.Close()
}
