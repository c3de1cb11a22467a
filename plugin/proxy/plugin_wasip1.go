package proxy

import (
	"strconv"
	"strings"
	"unsafe"

	"github.com/callonce/callonce/plugin/guard"
	"github.com/callonce/callonce/plugin/ledger"
	"github.com/callonce/callonce/plugin/policy"
)

// start reads the configuration and opens the ledger. It refuses to start, with every
// reason in the log, rather than run unguarded.
func (p *plugin) start(size uint32) bool {
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
	if err := g.Open(ledger.Env{Table: ledgerTable(sharedData{}), Now: now, Random: random, Log: logLine}, layout); err != nil {
		logText(logCritical, "the ledger cannot be kept: "+err.Error())
		return false
	}
	if st := proxySetTickPeriodMilliseconds(uint32(tickPeriod(config).Milliseconds())); st != statusOK {
		logText(logCritical, "no ticks: "+st.Error())
		return false
	}
	record := guard.Recall(sharedData{}, pluginName(), config, &started, logLine)
	keys, bytes := layout.Most(config.Namespace, g.Quotas())
	keys, bytes = keys+1, bytes+int64(record)
	logText(logInfo, "the ledger holds at most "+strconv.Itoa(keys)+" keys and "+strconv.FormatInt(bytes, 10)+" bytes of shared data")
	p.guard = g
	return true
}

// started are the configurations that this VM has started.
var started guard.Started

var pluginNamePath = []string{"plugin_name"}

// pluginName is the filter's in the proxy's configuration: what replaces a plugin has its
// name. "" where there is none.
func pluginName() string {
	name, _ := (*stream)(nil).Property(pluginNamePath)
	return string(name)
}

// spareStreams is how many streams that are over a plugin keeps.
const spareStreams = 128

// begin gives a stream, a used one where there is one.
func (p *plugin) begin(id uint32) *stream {
	s := p.spare
	if s == nil {
		s = &stream{id: id, plugin: p}
		s.guard = p.guard.NewStream(id, hostOf(s))
		return s
	}
	p.spare, s.next = s.next, nil
	p.kept--
	s.id, s.held = id, 0
	s.guard.Reuse(id)
	return s
}

// end takes back a stream that nobody will ask for again.
func (p *plugin) end(s *stream) {
	s.letHeadGo()
	if p.kept == spareStreams {
		return
	}
	s.next, p.spare = p.spare, s
	p.kept++
}

func logText(level uint32, line string) {
	p, n := pText(line)
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
