package proxy

import (
	"strconv"
	"strings"

	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"
	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/callonce/callonce/plugin/guard"
	"github.com/callonce/callonce/plugin/ledger"
	"github.com/callonce/callonce/plugin/policy"
)

// tickMillis is how often each worker is woken, in milliseconds.
const tickMillis = 1000

// Register makes this module the callonce filter. Call it from init: a proxy-wasm
// host never runs main.
func Register() { proxywasm.SetVMContext(&vm{}) }

type vm struct{ types.DefaultVMContext }

// NewPluginContext begins a configuration; a changed one gets a context of its own.
func (*vm) NewPluginContext(uint32) types.PluginContext { return &plugin{} }

type plugin struct {
	types.DefaultPluginContext
	guard *guard.Guard
	waker waker
}

// OnPluginStart reads the configuration and opens the ledger. It refuses to start,
// with every reason in the log, rather than run unguarded.
func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	text, err := proxywasm.GetPluginConfiguration()
	if err != nil && err != types.ErrorStatusNotFound {
		proxywasm.LogCritical("callonce: the configuration cannot be read: " + err.Error())
		return types.OnPluginStartStatusFailed
	}
	config, mistakes := policy.Parse(text)
	if len(mistakes) > 0 {
		for _, line := range strings.Split(mistakes.Error(), "\n") {
			proxywasm.LogCritical(line)
		}
		return types.OnPluginStartStatusFailed
	}
	for _, w := range config.Warnings() {
		logLine(w)
	}
	p.guard = guard.New(config, metrics{}, logLine)
	if err := p.guard.Open(ledger.Env{Table: ledgerTable(sharedData{}), Now: now, Random: random, Log: logLine}, layout); err != nil {
		proxywasm.LogCritical("callonce: the ledger cannot be kept: " + err.Error())
		return types.OnPluginStartStatusFailed
	}
	keys, bytes := layout.Most(config.Namespace, p.guard.Quotas())
	proxywasm.LogInfo("callonce: the ledger holds at most " + strconv.Itoa(keys) + " keys and " + strconv.FormatInt(bytes, 10) + " bytes of shared data")
	if err := proxywasm.SetTickPeriodMilliSeconds(tickMillis); err != nil {
		proxywasm.LogCritical("callonce: no ticks: " + err.Error())
		return types.OnPluginStartStatusFailed
	}
	return types.OnPluginStartStatusOK
}

// OnTick wakes the ledger.
func (p *plugin) OnTick() {
	if p.guard != nil {
		p.guard.Tick(now())
	}
}

// OnQueueReady is the answer to waker.
func (p *plugin) OnQueueReady(uint32) {
	p.waker.drain()
	p.guard.Look()
}

// NewHttpContext begins a stream.
func (p *plugin) NewHttpContext(id uint32) types.HttpContext {
	return &stream{s: p.guard.NewStream(id, streamHost(host{id, &p.waker}))}
}

func logLine(text string) { proxywasm.LogWarn("callonce: " + text) }

type metrics struct{}

// Counter implements guard.Metrics.
func (metrics) Counter(name string) guard.Counter {
	return counter{proxywasm.DefineCounterMetric(name)}
}

// Gauge implements guard.Metrics.
func (metrics) Gauge(name string) guard.Gauge {
	return gauge{proxywasm.DefineGaugeMetric(name)}
}

type gauge struct{ m proxywasm.MetricGauge }

// Set implements guard.Gauge. The ABI records a value for gauges and histograms alike;
// the SDK offers it under the latter's name only.
func (g gauge) Set(value uint64) { proxywasm.MetricHistogram(g.m).Record(value) }

// Value implements guard.Gauge.
func (g gauge) Value() uint64 { return uint64(g.m.Value()) }

type counter struct{ m proxywasm.MetricCounter }

// Add implements guard.Counter.
func (c counter) Add(n uint64) { c.m.Increment(n) }
