package hostsim

import (
	"time"

	"github.com/callonce/callonce/hostsim/internal/abi"
	"github.com/callonce/callonce/hostsim/internal/header"
)

// What the module asks of its VM: see abi.Proxy. Callouts, properties, queues and metrics have files of their own.

var _ abi.Proxy = (*vm)(nil)

// Watch lets the host's hooks see a call.
func (v *vm) Watch() abi.Watch {
	h := &v.host.config.Hooks
	if h.Before == nil && h.After == nil && h.Hands == nil {
		return nil
	}
	return &watch{hooks: h, call: Call{Worker: v.number, Context: v.current.id}}
}

// watch is that of one call.
type watch struct {
	hooks *Hooks
	call  Call
}

func (w *watch) Before(function string, a *abi.Arguments) (Status, bool) {
	c := &w.call
	c.Function, c.Key, c.Value, c.CAS = function, a.Key, a.Value, a.CAS
	if w.hooks.Before == nil {
		return StatusOK, true
	}
	verdict := w.hooks.Before(c)
	if verdict.kind == crash {
		panic(errCrash)
	}
	a.Key, a.Value, a.CAS = c.Key, c.Value, c.CAS
	return verdict.status, verdict.kind == proceed
}

func (w *watch) Hands(b []byte) []byte {
	if w.hooks.Hands == nil {
		return b
	}
	return w.hooks.Hands(&w.call, b)
}

func (w *watch) After(st Status) {
	if w.hooks.After != nil {
		w.hooks.After(&w.call, st)
	}
}

func (v *vm) Log(level LogLevel, text string) {
	if v.recording {
		v.startLines = append(v.startLines, LogLine{Worker: v.number, Level: level, Text: text})
	}
	if v.host.config.Log != nil {
		v.host.config.Log(v.number, level, text)
	}
}

// mostPrinted bounds what is kept for [Hooks].Failed.
const mostPrinted = 64 << 10

func (v *vm) Printed(b []byte) {
	v.printed = append(v.printed, b[:min(len(b), mostPrinted-len(v.printed))]...)
}

func (v *vm) Foreign(name string, argument []byte) ([]byte, Status) {
	if f := v.host.config.Foreign[name]; f != nil {
		return f(argument)
	}
	if name == "clear_route_cache" {
		return nil, StatusOK
	}
	return nil, StatusNotFound
}

func (v *vm) Now() time.Time      { return v.host.clock.Now() }
func (v *vm) Mono() time.Duration { return v.host.clock.Mono() }
func (v *vm) Random(b []byte)     { v.host.random(b) }

func (v *vm) SetEffectiveContext(id uint32) Status {
	if v.contexts[id] == nil {
		return StatusBadArgument
	}
	v.effective = id
	return StatusOK
}

func (v *vm) SetTickPeriod(d time.Duration) { v.setTick(v.acting().root.id, d) }

func (v *vm) Readable(kind abi.Map) *header.Map { return v.acting().readable(kind) }
func (v *vm) Writable(kind abi.Map) *header.Map { return v.acting().writable(kind) }

func (v *vm) Buffer(kind abi.Buffer) (b *[]byte, fixed, ok bool) { return v.acting().buffer(kind) }

func (v *vm) LocalReply(r abi.Reply) {
	if st := v.acting().stream; st != nil {
		v.deferred = append(v.deferred, func() {
			st.localReply(localReply{status: r.Status, details: r.Details, body: r.Body, headers: r.Headers})
		})
	}
	v.stopped = true
}

// Continue always takes the request's headers out of reach, whichever direction resumes: Envoy does so too.
func (v *vm) Continue(d abi.Direction) {
	st := v.acting().stream
	if st == nil {
		return
	}
	l := &st.request
	if d == abi.Response {
		l = &st.response
	}
	v.deferred = append(v.deferred, func() { st.resume(l) })
	st.request.openHeaders, st.request.openTrailers, st.request.chunk = nil, nil, nil
}

func (v *vm) Close(d abi.Direction) {
	if st := v.acting().stream; st != nil && d <= abi.Response {
		v.deferred = append(v.deferred, func() { st.cut(failStreamDetails, 0) })
		v.stopped = true
	}
}

func (v *vm) SharedData(key string) (value []byte, cas uint32, ok bool) {
	return v.host.store.Get(v.host.config.VMID, key)
}

func (v *vm) SetSharedData(key string, value []byte, cas uint32) Status {
	return v.host.store.Set(v.host.config.VMID, key, value, cas)
}
