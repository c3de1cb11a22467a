package hostsim

import (
	"cmp"
	"slices"
	"time"
)

// pluginConfig is one configuration of the plugin. Two configurations with the same bytes are still two.
type pluginConfig struct{ bytes []byte }

// startPlugin makes a plugin context for p and runs VM start and plugin start in it. The log lines of a refusal come with the error.
func (v *vm) startPlugin(p *pluginConfig) error {
	c := v.newContext(p, nil, nil)
	fail := func(stage string) error {
		lines := v.startLines
		v.recording, v.startLines = false, nil
		delete(v.contexts, c.id)
		v.setTick(c.id, 0)
		return &StartError{Stage: stage, Lines: lines, Err: v.failed}
	}
	c.created = true
	_, ok := v.call(c, "proxy_on_context_create", uint64(c.id), 0)
	v.runDeferred()
	if !ok {
		return fail("plugin context")
	}
	if v.code.Has("proxy_on_vm_start") {
		started, ok := v.call(c, "proxy_on_vm_start", uint64(c.id), uint64(len(v.host.config.VMConfig)))
		v.runDeferred()
		if !ok || uint32(started) == 0 {
			return fail("VM start")
		}
	}
	if v.code.Has("proxy_on_configure") {
		c.configuring = true
		configured, ok := v.call(c, "proxy_on_configure", uint64(c.id), uint64(len(p.bytes)))
		c.configuring = false
		v.runDeferred()
		if !ok || uint32(configured) == 0 {
			return fail("plugin start")
		}
	}
	v.recording, v.startLines = false, nil
	return nil
}

// plugins lists the plugin contexts in the order of their making.
func (v *vm) plugins() []*guestContext {
	var all []*guestContext
	for _, c := range v.contexts {
		if c.plugin != nil && c.stream == nil {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *guestContext) int { return cmp.Compare(a.id, b.id) })
	return all
}

// root is the plugin context of p, or of the newest configuration that the VM has when p has not reached it yet.
func (v *vm) root(p *pluginConfig) *guestContext {
	all := v.plugins()
	for _, c := range all {
		if c.plugin == p {
			return c
		}
	}
	return all[len(all)-1]
}

// endPlugin tells the module that p is over and forgets its context, unless the module wants to call proxy_done later.
func (v *vm) endPlugin(p *pluginConfig) {
	for _, c := range v.plugins() {
		if c.plugin != p {
			continue
		}
		v.setTick(c.id, 0)
		done, ok := v.call(c, "proxy_on_done", uint64(c.id))
		v.runDeferred()
		if !ok {
			return
		}
		if v.code.Has("proxy_on_done") && uint32(done) == 0 {
			c.ending = true
			return
		}
		v.deletePlugin(c)
		return
	}
}

// Done is the module's proxy_done: the end that its on_done put off.
func (v *vm) Done() Status {
	c := v.acting()
	if !c.ending {
		return StatusNotFound
	}
	c.ending = false
	v.deferred = append(v.deferred, func() { v.deletePlugin(c) })
	return StatusOK
}

func (v *vm) deletePlugin(c *guestContext) {
	v.call(c, "proxy_on_delete", uint64(c.id))
	delete(v.contexts, c.id)
	v.runDeferred()
}

// notifier is what a queue calls on a message: a step in the event loop of the thread that registered it. The step looks the VM up
// anew, because a reloaded VM inherits the registration of its predecessor.
func (h *Host) notifier(number int, l *loop, context uint32) func(uint32) {
	return func(token uint32) {
		l.post("queue", func() {
			v := h.vmOf(number)
			if v == nil || v.contexts[context] == nil {
				return
			}
			v.call(v.contexts[context], "proxy_on_queue_ready", uint64(context), uint64(token))
			v.runDeferred()
		})
	}
}

// vmOf is the VM of a worker or of the main thread. The trial VM ran on the main thread, and what it registered belongs to that.
func (h *Host) vmOf(number int) *vm {
	if number < 0 {
		return h.main.vm
	}
	return h.workers[number].vm
}

// ticker is a plugin context's timer.
type ticker struct {
	period time.Duration
	stop   func()
}

// setTick starts, changes or (0) ends the ticks of a plugin context. A new period counts from the next tick on.
func (v *vm) setTick(id uint32, period time.Duration) {
	t := v.tickers[id]
	if period <= 0 {
		if t != nil {
			t.stop()
			delete(v.tickers, id)
		}
		return
	}
	if t != nil {
		t.period = period
		return
	}
	t = &ticker{period: period}
	v.tickers[id] = t
	v.arm(id, t)
}

func (v *vm) arm(id uint32, t *ticker) {
	t.stop = v.host.clock.AfterFunc(t.period, func() {
		v.loop.post("tick", func() {
			if v.tickers[id] != t {
				return
			}
			v.tick(id)
			if v.tickers[id] == t {
				v.arm(id, t)
			}
		})
	})
}

func (v *vm) tick(id uint32) {
	c := v.contexts[id]
	if c == nil {
		return
	}
	v.call(c, "proxy_on_tick", uint64(id))
	v.runDeferred()
}

// tickIDs lists the contexts that tick, in order, so that equal runs tick equally.
func (v *vm) tickIDs() []uint32 {
	var ids []uint32
	for id := range v.tickers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
