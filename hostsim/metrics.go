package hostsim

import (
	"cmp"
	"slices"
	"sync"

	"github.com/callonce/callonce/hostsim/internal/abi"
)

type metricName struct {
	kind abi.MetricKind
	name string
}

// metricTable holds the process's metrics. They are found by name, so that all VMs count into one; they are never freed.
type metricTable struct {
	mu     sync.Mutex
	values map[metricName]*metric
}

type metric struct {
	value int64 // a abi.Histogram: how many values were recorded
	sum   uint64
}

func newMetricTable() metricTable { return metricTable{values: map[metricName]*metric{}} }

func (t *metricTable) define(n metricName) *metric {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.values[n]
	if m == nil {
		m = &metric{}
		t.values[n] = m
	}
	return m
}

// increment refuses a counter's offset of 0 or less, as Envoy does; the Go SDK turns that refusal into a panic.
func (t *metricTable) increment(k abi.MetricKind, m *metric, offset int64) Status {
	if k == abi.Histogram || k == abi.Counter && offset <= 0 {
		return StatusBadArgument
	}
	t.mu.Lock()
	m.value += offset
	t.mu.Unlock()
	return StatusOK
}

func (t *metricTable) record(k abi.MetricKind, m *metric, value uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch k {
	case abi.Counter:
		m.value += int64(value)
	case abi.Gauge:
		m.value = int64(value)
	case abi.Histogram:
		m.value++
		m.sum += value
	}
}

func (t *metricTable) get(m *metric) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return uint64(m.value)
}

// Metrics returns the present value of every counter and gauge by the name under which the module defined it; of a histogram, how
// many values were recorded.
func (s *Store) Metrics() map[string]int64 {
	s.metrics.mu.Lock()
	defer s.metrics.mu.Unlock()
	out := make(map[string]int64, len(s.metrics.values))
	for n, m := range s.metrics.values {
		out[n.name] += m.value
	}
	return out
}

// Metric is one metric as the module defined it.
type Metric struct {
	// Name is the raw name, with whatever spelling of labels the module uses.
	Name string
	// Kind is "counter", "gauge" or "histogram".
	Kind string
	// Value is a counter's or gauge's, or how many values a histogram has recorded; Sum is the sum of those.
	Value int64
	Sum   uint64
}

// AllMetrics lists all metrics by name.
func (s *Store) AllMetrics() []Metric {
	s.metrics.mu.Lock()
	defer s.metrics.mu.Unlock()
	kinds := [...]string{abi.Counter: "counter", abi.Gauge: "gauge", abi.Histogram: "histogram"}
	var out []Metric
	for n, m := range s.metrics.values {
		out = append(out, Metric{n.name, kinds[n.kind], m.value, m.sum})
	}
	slices.SortFunc(out, func(a, b Metric) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

// vmMetric is a metric by the id that a VM has given it. Ids carry the kind in their lowest two bits.
type vmMetric struct {
	kind abi.MetricKind
	m    *metric
}

const metricIDStep = 4

func (v *vm) DefineMetric(kind abi.MetricKind, name string) (id uint32) {
	v.nextMetric[kind] += metricIDStep
	id = v.nextMetric[kind]
	v.metrics[id] = vmMetric{kind, v.host.store.metrics.define(metricName{kind, name})}
	return id
}

func (v *vm) IncrementMetric(id uint32, offset int64) Status {
	m, ok := v.metrics[id]
	if !ok {
		return missingMetric(id)
	}
	return v.host.store.metrics.increment(m.kind, m.m, offset)
}

func (v *vm) RecordMetric(id uint32, value uint64) Status {
	m, ok := v.metrics[id]
	if !ok {
		return StatusNotFound
	}
	v.host.store.metrics.record(m.kind, m.m, value)
	return StatusOK
}

func (v *vm) Metric(id uint32) (uint64, Status) {
	m, ok := v.metrics[id]
	if !ok {
		return 0, missingMetric(id)
	}
	if m.kind == abi.Histogram {
		return 0, StatusBadArgument
	}
	return v.host.store.metrics.get(m.m), StatusOK
}

func missingMetric(id uint32) Status {
	if abi.MetricKind(id%metricIDStep) >= abi.Histogram {
		return StatusBadArgument
	}
	return StatusNotFound
}
