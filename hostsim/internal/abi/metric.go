package abi

// Metrics.
var metricFuncs = []function{
	{name: "proxy_define_metric", words: 4, run: defineMetric},
	{name: "proxy_increment_metric", words: 2, wide: 2, run: incrementMetric},
	{name: "proxy_record_metric", words: 2, wide: 2, run: recordMetric},
	{name: "proxy_get_metric", words: 2, run: getMetric},
}

func defineMetric(g *Guest, s []uint64, _ *Arguments) Status {
	name, ok := g.bytes(s, 1)
	if !ok {
		return InvalidMemory
	}
	kind := MetricKind(word(s, 0))
	if kind > Histogram {
		return BadArgument
	}
	return written(g.Memory.WriteUint32Le(word(s, 3), g.Proxy.DefineMetric(kind, string(name))))
}

func incrementMetric(g *Guest, s []uint64, _ *Arguments) Status {
	return g.Proxy.IncrementMetric(word(s, 0), int64(s[1]))
}

func recordMetric(g *Guest, s []uint64, _ *Arguments) Status {
	return g.Proxy.RecordMetric(word(s, 0), s[1])
}

func getMetric(g *Guest, s []uint64, _ *Arguments) Status {
	value, st := g.Proxy.Metric(word(s, 0))
	if st != OK {
		return st
	}
	return written(g.Memory.WriteUint64Le(word(s, 1), value))
}
