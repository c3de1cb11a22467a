package hostsim

import (
	"cmp"
	"slices"
	"sync"
)

type metricKind uint32

const (
	counter metricKind = iota
	gauge
	histogram
)

type metricName struct {
	kind metricKind
	name string
}

// metricTable holds the process's metrics. They are found by name, so that all VMs count into one; they are never freed.
type metricTable struct {
	mu     sync.Mutex
	values map[metricName]*metric
}

type metric struct {
	value int64 // a histogram: how many values were recorded
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
func (t *metricTable) increment(k metricKind, m *metric, offset int64) Status {
	if k == histogram || k == counter && offset <= 0 {
		return StatusBadArgument
	}
	t.mu.Lock()
	m.value += offset
	t.mu.Unlock()
	return StatusOK
}

func (t *metricTable) record(k metricKind, m *metric, value uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch k {
	case counter:
		m.value += int64(value)
	case gauge:
		m.value = int64(value)
	case histogram:
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
	kinds := [...]string{counter: "counter", gauge: "gauge", histogram: "histogram"}
	var out []Metric
	for n, m := range s.metrics.values {
		out = append(out, Metric{n.name, kinds[n.kind], m.value, m.sum})
	}
	slices.SortFunc(out, func(a, b Metric) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}
