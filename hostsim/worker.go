package hostsim

import (
	"context"
	"fmt"
	"time"
)

// worker is one thread of the proxy: an event loop, a VM on it, and the streams that it serves.
type worker struct {
	host    *Host
	number  int
	loop    *loop
	vm      *vm
	loaded  time.Duration // when vm was made
	streams map[*stream]bool
}

func newWorker(h *Host, number int) *worker {
	return &worker{host: h, number: number, loop: newLoop(number, h.config.Hooks.Event), streams: map[*stream]bool{}}
}

// begin makes the worker's first VM.
func (w *worker) begin(p *pluginConfig) error {
	err := errClosed
	w.loop.do("start", func() { err = w.load(p) })
	return err
}

// load replaces the VM by a new one that runs p.
func (w *worker) load(p *pluginConfig) error {
	v, err := newVM(w.host, w.loop, w.number)
	if err != nil {
		return err
	}
	w.loaded = w.host.clock.Mono()
	if err := v.startPlugin(p); err != nil {
		v.close()
		return err
	}
	if w.vm != nil {
		w.vm.close()
	}
	w.vm = v
	return nil
}

// serving is the VM for a new stream: nil when it has failed and may not come back, or not yet.
func (w *worker) serving() *vm {
	if w.vm != nil && w.vm.failed == nil {
		return w.vm
	}
	if !w.host.config.FailReload || w.host.clock.Mono()-w.loaded < w.host.config.ReloadBackoff {
		return nil
	}
	w.loaded = w.host.clock.Mono()
	if err := w.load(w.host.plugin()); err != nil {
		if w.host.config.Log != nil {
			w.host.config.Log(w.number, LogCritical, fmt.Sprintf("VM reload: %v", err))
		}
		return nil
	}
	return w.vm
}

// configure adds a plugin context for p. A failed VM is replaced: its worker serves again.
func (w *worker) configure(p *pluginConfig) error {
	err := errClosed
	w.loop.do("configure", func() {
		if w.vm == nil || w.vm.failed != nil {
			err = w.load(p)
			return
		}
		w.vm.recording, w.vm.startLines = true, nil
		err = w.vm.startPlugin(p)
	})
	return err
}

// drain cuts the streams that still run under p and ends its plugin context.
func (w *worker) drain(p *pluginConfig) {
	for s := range w.streams {
		if s.ctx != nil && s.ctx.plugin == p {
			s.cut("downstream_local_disconnect(filter_chain_is_being_removed)", 0)
		}
	}
	if w.vm != nil && w.vm.failed == nil {
		w.vm.endPlugin(p)
	}
}

// tickAll ticks every plugin context, whether it has asked for ticks or not.
func (w *worker) tickAll() {
	if w.vm == nil {
		return
	}
	for _, c := range w.vm.plugins() {
		w.vm.tick(c.id)
	}
}

// close ends the loop. It is false when the module, or a hook, does not return from a callback: then goroutine and VM stay.
func (w *worker) close() bool {
	left := true
	ended := make(chan struct{})
	if w.loop.post("close", func() {
		defer close(ended)
		for s := range w.streams {
			s.ctx = nil
			s.cut("process_exit", 0)
		}
		if w.vm != nil {
			w.vm.close()
		}
	}) {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		select {
		case <-ended:
		case <-ctx.Done():
			left = false
		}
	}
	w.loop.close()
	return left
}

const closePatience = 5 * time.Second
