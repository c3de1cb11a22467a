package abi

import (
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/callonce/callonce/plugin/internal/guard"
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/policy"
	"github.com/callonce/callonce/plugin/internal/version"
)

// start reads the configuration and opens the ledger. It refuses to start, with every
// reason in the log, rather than run unguarded.
func (p *plugin) start(size uint32) bool {
	logText(logInfo, "callonce "+version.String())
	text, st := taken(proxyGetBufferBytes(configuration, 0, size, pBytes(), pSize()))
	if st != statusOK && st != statusNotFound {
		logText(logCritical, "the configuration cannot be read: "+st.Error())
		return false
	}
	// A copy: what is parsed may keep parts of the text.
	config, mistakes := policy.Parse([]byte(string(text)))
	if len(mistakes) > 0 {
		for _, line := range strings.Split(mistakes.Error(), "\n") {
			logText(logCritical, line)
		}
		return false
	}
	for _, w := range config.Warnings() {
		logLine(w)
	}
	for _, p := range config.Policies {
		if p.Observe {
			logLine("the policy " + strconv.Quote(p.Name) + " observes: it decides, counts and logs as if it enforced, and refuses, replays and edits nothing")
		}
	}
	g := guard.New(config, metrics{}, logLine)
	g.Queues, g.Calls = &p.waker, calls{}
	g.Remote = guard.Remote{Caller: newCaller, Wall: wall, Node: nodeID()}
	g.TellBuild(version.Build())
	if err := g.Open(ledger.Env{Table: ledgerTable(sharedData{}), Now: now, Random: random}, layout); err != nil {
		logText(logCritical, "the ledger cannot be kept: "+err.Error())
		return false
	}
	p.period = tickPeriod(config)
	first := p.period
	if config.Store.Kind != policy.SharedData {
		first = firstTick
	}
	if st := setTicks(first); st != statusOK {
		logText(logCritical, "no ticks: "+st.Error())
		return false
	}
	record := guard.Recall(sharedData{}, pluginName(), config, &started, logLine)
	keys, bytes := layout.Most(config.Namespace, g.Quotas())
	keys, bytes = keys+2, bytes+int64(record+guard.MostWakeBytes(config.Namespace))
	logText(logInfo, "the ledger holds at most "+strconv.Itoa(keys)+" keys and "+strconv.FormatInt(bytes, 10)+" bytes of shared data")
	p.guard, p.host = g, hostOf
	return true
}

// started are the configurations that this VM has started.
var started guard.Started

var pluginNamePath = []string{"plugin_name"}

var nodeIDPath = []string{"node", "id"}

// nodeID is the proxy's name among others. "" where it has none.
func nodeID() string {
	id, _ := (*stream)(nil).Property(nodeIDPath)
	return string(id)
}

func setTicks(period time.Duration) status {
	return proxySetTickPeriodMilliseconds(uint32(period.Milliseconds()))
}

// pluginName is the filter's in the proxy's configuration: what replaces a plugin has its
// name. "" where there is none.
func pluginName() string {
	name, _ := (*stream)(nil).Property(pluginNamePath)
	return string(name)
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
