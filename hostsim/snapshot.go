package hostsim

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Snapshot is a host at rest, to which it can be brought back: its VMs' memory, what it keeps for them, its store and its clock. It is for
// tests that play many runs from one beginning, of which starting the VMs would take the most time.
type Snapshot struct {
	host   *Host
	vms    []vmSnapshot // the main thread's first
	clock  clockSnapshot
	tables map[string]map[string]sharedValue
	cas    uint32
	queues queueSnapshot
	metric map[metricName]metric
}

type queueSnapshot struct {
	tokens map[queueName]uint32
	queues map[uint32]*queue
	next   uint32
}

type vmSnapshot struct {
	vm       *vm
	worker   *worker
	saved    vm // the fields as they were; maps are copies
	loaded   time.Duration
	memory   []byte
	contexts map[uint32]guestContext
	tickers  map[uint32]ticker
}

// Save takes a snapshot. It is an error unless the host is at rest: no step queued or running, no stream, no callout, no VM that has
// failed; and unless its clock is a [ManualClock], by itself or embedded in what Config.Clock is.
func (h *Host) Save() (*Snapshot, error) {
	clock, err := h.manualClock()
	if err != nil {
		return nil, err
	}
	m := &Snapshot{host: h, clock: clock.save()}
	for _, w := range h.all() {
		if err := w.resting(); err != nil {
			return nil, err
		}
		v := w.vm
		s := vmSnapshot{vm: v, worker: w, saved: *v, loaded: w.loaded, memory: v.code.Save(),
			contexts: map[uint32]guestContext{}, tickers: map[uint32]ticker{}}
		s.saved.contexts, s.saved.tickers, s.saved.metrics = maps.Clone(v.contexts), maps.Clone(v.tickers), maps.Clone(v.metrics)
		for id, c := range v.contexts {
			s.contexts[id] = *c
		}
		for id, t := range v.tickers {
			s.tickers[id] = *t
		}
		m.vms = append(m.vms, s)
	}
	m.tables, m.cas, m.queues, m.metric = h.store.save()
	return m, nil
}

// Sum is a digest of the VMs' memory, for tests that compare hosts.
func (m *Snapshot) Sum() []byte {
	h := sha256.New()
	for i := range m.vms {
		h.Write(m.vms[i].memory)
	}
	return h.Sum(nil)
}

func (w *worker) resting() error {
	switch {
	case !w.loop.quiet():
		return fmt.Errorf("worker %d has steps to take: a host is saved at rest only", w.number)
	case w.vm == nil || w.vm.failed != nil:
		return fmt.Errorf("worker %d has no VM, or one that has failed: nothing to save", w.number)
	case len(w.streams) > 0 || len(w.vm.callouts)+len(w.vm.grpcCalls) > 0:
		return fmt.Errorf("worker %d has %d streams and %d callouts open: a host is saved at rest only", w.number, len(w.streams), len(w.vm.callouts)+len(w.vm.grpcCalls))
	}
	return nil
}

// Restore brings the host back. Streams that are open are forgotten: nobody hears of them again. It is an error, and the host of no
// more use, where a step is queued or running, or a VM is no longer the one that was saved: it has failed, was replaced, or its
// memory has grown.
func (h *Host) Restore(m *Snapshot) error {
	clock, err := h.manualClock()
	if err != nil {
		return err
	}
	if m.host != h {
		return errors.New("the snapshot is another host's")
	}
	for i := range m.vms {
		s := &m.vms[i]
		switch w := s.worker; {
		case !w.loop.quiet():
			return fmt.Errorf("worker %d has steps to take: a host is restored at rest only", w.number)
		case w.vm != s.vm || w.vm.failed != nil:
			return fmt.Errorf("the VM of worker %d is not the one that was saved", w.number)
		case s.vm.code.Size() != len(s.memory):
			return fmt.Errorf("the memory of worker %d has grown from %d to %d bytes", w.number, len(s.memory), s.vm.code.Size())
		}
	}
	for i := range m.vms {
		m.vms[i].restore()
	}
	clock.restore(m.clock)
	h.store.restore(m)
	return nil
}

func (s *vmSnapshot) restore() {
	v := s.vm
	before := *v
	*v = s.saved
	v.contexts, v.tickers, v.metrics = maps.Clone(s.saved.contexts), maps.Clone(s.saved.tickers), maps.Clone(s.saved.metrics)
	for _, c := range before.grpcCalls {
		c.cancel()
	}
	for _, c := range before.callouts {
		c.cancel()
	}
	v.callouts, v.grpcCalls, v.deferred = map[uint32]*callout{}, map[uint32]*grpcCall{}, nil
	for id, c := range v.contexts {
		*c = s.contexts[id]
	}
	for id, t := range v.tickers {
		*t = s.tickers[id]
	}
	v.code.Restore(s.memory)
	s.worker.loaded = s.loaded
	clear(s.worker.streams)
}

// manual is a clock that can be saved: a ManualClock, or what embeds one.
type manual interface {
	save() clockSnapshot
	restore(clockSnapshot)
}

func (h *Host) manualClock() (manual, error) {
	if c, ok := h.clock.(manual); ok {
		return c, nil
	}
	return nil, errors.New("only a host on a ManualClock can be saved and restored")
}

func (s *Store) save() (tables map[string]map[string]sharedValue, cas uint32, queues queueSnapshot, metrics map[metricName]metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	metrics = map[metricName]metric{}
	for n, m := range s.metrics.values {
		metrics[n] = *m
	}
	return cloneTables(s.tables), s.lastCAS, queueSnapshot{maps.Clone(s.queues.tokens), cloneQueues(s.queues.queues), s.queues.next}, metrics
}

func (s *Store) restore(m *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables, s.lastCAS = cloneTables(m.tables), m.cas
	s.queues.tokens, s.queues.queues, s.queues.next = maps.Clone(m.queues.tokens), cloneQueues(m.queues.queues), m.queues.next
	for n, v := range s.metrics.values {
		if was, ok := m.metric[n]; ok {
			*v = was
		} else {
			delete(s.metrics.values, n)
		}
	}
}

// cloneTables copies the tables, not the values: those are never changed in place.
func cloneTables(t map[string]map[string]sharedValue) map[string]map[string]sharedValue {
	out := map[string]map[string]sharedValue{}
	for id, values := range t {
		out[id] = maps.Clone(values)
	}
	return out
}

func cloneQueues(q map[uint32]*queue) map[uint32]*queue {
	out := map[uint32]*queue{}
	for token, one := range q {
		out[token] = &queue{messages: slices.Clone(one.messages), notify: one.notify}
	}
	return out
}
