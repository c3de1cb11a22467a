package abi

import (
	"time"
	"unsafe"

	"github.com/callonce/callonce/plugin/internal/boot"
	"github.com/callonce/callonce/plugin/internal/guard"
)

// start brings the configuration to work.
func (p *plugin) start(size uint32) bool {
	g, then, ok := boot.Start(boot.Proxy{
		Log: func(level boot.Level, line string) { logText(uint32(level), line) }, Property: (*stream)(nil).Property, Ticks: setTicks,
		Configuration: func() ([]byte, error) {
			text, st := taken(proxyGetBufferBytes(configuration, 0, size, pBytes(), pSize()))
			if st == statusNotFound {
				return nil, nil
			}
			return text, st.err()
		},
		Table: sharedData{}, Now: now, Random: random, Metrics: metrics{}, Queues: &p.waker, Calls: calls{},
		Remote: guard.Remote{Caller: newCaller, Wall: wall},
	})
	if ok {
		p.guard, p.period = g, then
		p.host = func(s *stream) guard.Host { return boot.HostOf(s) }
	}
	return ok
}

func setTicks(period time.Duration) error {
	return proxySetTickPeriodMilliseconds(uint32(period.Milliseconds())).err()
}

func logText(level uint32, line string) {
	p, n := pText(guard.OneLine(line, len(line)))
	_ = proxyLog(level, p, n) // there is nowhere else to say it
}

// logLine says something without the filter's name: the proxy puts the plugin's in front.
func logLine(line string) { logText(logWarn, line) }

type metrics struct{}

// Counter implements guard.Metrics.
func (metrics) Counter(name string) guard.Counter { return counter(define(counterMetric, name)) }

// Gauge implements guard.Metrics.
func (metrics) Gauge(name string) guard.Gauge { return gauge(define(gaugeMetric, name)) }

func define(kind uint32, name string) uint32 {
	p, n := pText(name)
	returned.number = 0
	if st := proxyDefineMetric(kind, p, n, unsafe.Pointer(&returned.number)); st != statusOK {
		logLine("no metric " + name + ": " + st.Error())
	}
	return uint32(returned.number)
}

type counter uint32

// Add implements guard.Counter.
func (c counter) Add(n uint64) {
	if st := proxyIncrementMetric(uint32(c), int64(n)); st != statusOK {
		logLine("a counter was not counted: " + st.Error())
	}
}

type gauge uint32

// Add implements guard.Gauge.
func (g gauge) Add(n int64) {
	if st := proxyIncrementMetric(uint32(g), n); st != statusOK {
		logLine("a gauge was not changed: " + st.Error())
	}
}

// Set implements guard.Gauge.
func (g gauge) Set(value uint64) {
	if st := proxyRecordMetric(uint32(g), value); st != statusOK {
		logLine("a gauge was not set: " + st.Error())
	}
}

// Value implements guard.Gauge.
func (g gauge) Value() uint64 {
	returned.number = 0
	if st := proxyGetMetric(uint32(g), unsafe.Pointer(&returned.number)); st != statusOK {
		logLine("a gauge was not read: " + st.Error())
	}
	return returned.number
}
