package hostsim

type vmMetric struct {
	kind metricKind
	m    *metric
}

// Metrics. Ids belong to a VM and carry the kind in their lowest two bits.
var metricFuncs = []hostFunc{
	{name: "proxy_define_metric", words: 4, run: defineMetric},
	{name: "proxy_increment_metric", words: 2, wide: 2, run: incrementMetric},
	{name: "proxy_record_metric", words: 2, wide: 2, run: recordMetric},
	{name: "proxy_get_metric", words: 2, run: getMetric},
}

const metricIDStep = 4

func defineMetric(v *vm, s []uint64, _ *Call) Status {
	kind := metricKind(word(s, 0))
	name, ok := v.bytesArg(s, 1)
	if !ok {
		return StatusInvalidMemory
	}
	if kind > histogram {
		return StatusBadArgument
	}
	v.nextMetric[kind] += metricIDStep
	id := v.nextMetric[kind]
	v.metrics[id] = vmMetric{kind, v.host.store.metrics.define(metricName{kind, string(name)})}
	if !v.mem.WriteUint32Le(word(s, 3), id) {
		return StatusInvalidMemory
	}
	return StatusOK
}

func incrementMetric(v *vm, s []uint64, _ *Call) Status {
	m, ok := v.metrics[word(s, 0)]
	if !ok {
		return missingMetric(word(s, 0))
	}
	return v.host.store.metrics.increment(m.kind, m.m, int64(s[1]))
}

func recordMetric(v *vm, s []uint64, _ *Call) Status {
	m, ok := v.metrics[word(s, 0)]
	if !ok {
		return StatusNotFound
	}
	v.host.store.metrics.record(m.kind, m.m, s[1])
	return StatusOK
}

func getMetric(v *vm, s []uint64, _ *Call) Status {
	m, ok := v.metrics[word(s, 0)]
	if !ok {
		return missingMetric(word(s, 0))
	}
	if m.kind == histogram {
		return StatusBadArgument
	}
	if !v.mem.WriteUint64Le(word(s, 1), v.host.store.metrics.get(m.m)) {
		return StatusInvalidMemory
	}
	return StatusOK
}

func missingMetric(id uint32) Status {
	if metricKind(id%metricIDStep) >= histogram {
		return StatusBadArgument
	}
	return StatusNotFound
}
