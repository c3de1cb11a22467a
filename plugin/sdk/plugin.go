package main

import (
	"encoding/hex"
	"time"
	"unsafe"

	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"
	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/callonce/callonce/plugin/internal/boot"
	"github.com/callonce/callonce/plugin/internal/guard"
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// lacks is what the SDK cannot do.
var lacks = policy.Lacks{Binding: "on the Go SDK", GRPC: true, Callouts: true}

// plugin is one configuration.
type plugin struct {
	types.DefaultPluginContext
	guard  *guard.Guard
	period time.Duration // of ticks after the first one; 0 = set already
	queue  queue
}

func newPlugin(uint32) types.PluginContext { return &plugin{} }

func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	g, then, ok := boot.Start(boot.Proxy{
		Lacks: lacks, Log: logAt, Configuration: configuration, Property: property, Ticks: setTicks,
		Table: table{}, Now: now, Random: random, Metrics: metrics{}, Queues: &p.queue,
	})
	p.guard, p.period = g, then
	return types.OnPluginStartStatus(ok)
}

func (p *plugin) OnTick() {
	if p.guard == nil {
		return
	}
	if p.period > 0 {
		_ = setTicks(p.period) // without it they come sooner
		p.period = 0
	}
	p.guard.Tick(now())
}

// OnPluginDone is called when the proxy has done with the configuration. Of proxy_on_delete, which follows, the SDK tells nobody.
func (p *plugin) OnPluginDone() bool {
	if p.guard != nil {
		p.guard.Close()
	}
	return true
}

func (p *plugin) OnQueueReady(uint32) {
	if p.guard == nil {
		return
	}
	p.queue.drain(p.guard.Woken)
	p.guard.Look()
}

func (p *plugin) NewHttpContext(id uint32) types.HttpContext {
	if p.guard == nil {
		panic("a stream of a plugin that has not started")
	}
	s := &stream{id: id, plugin: p}
	s.guard = p.guard.NewStream(id, boot.HostOf(s))
	return s
}

func configuration() ([]byte, error) {
	text, err := proxywasm.GetPluginConfiguration()
	if err == types.ErrorStatusNotFound {
		return nil, nil
	}
	return text, told(err)
}

func setTicks(period time.Duration) error {
	return told(proxywasm.SetTickPeriodMilliSeconds(uint32(period.Milliseconds())))
}

func logAt(level boot.Level, line string) {
	line = guard.OneLine(line, len(line))
	switch level {
	case boot.Info:
		proxywasm.LogInfo(line)
	case boot.Critical:
		proxywasm.LogCritical(line)
	default:
		proxywasm.LogWarn(line)
	}
}

func warn(line string) { logAt(boot.Warn, line) }

// The SDK has no clock that all workers share, and no chance but Go's own: both are asked of WASI, as our own binding does.

//go:wasmimport wasi_snapshot_preview1 clock_time_get
//go:noescape
func clockTimeGet(clock uint32, precision uint64, into unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 random_get
//go:noescape
func randomGet(into unsafe.Pointer, size uint32) uint32

const monotonic = 1

func now() ledger.Mono {
	var t uint64
	if clockTimeGet(monotonic, 1, unsafe.Pointer(&t)) != 0 {
		panic("the host has no monotonic clock")
	}
	return ledger.Mono(t)
}

func random(into []byte) {
	if randomGet(unsafe.Pointer(unsafe.SliceData(into)), uint32(len(into))) != 0 {
		panic("the host has no random numbers")
	}
}

// queue is this worker's own.
type queue struct {
	id    uint32
	ready bool
}

// Queue implements guard.Queues.
func (q *queue) Queue() (uint32, bool) {
	if !q.ready {
		var name [16]byte
		random(name[:])
		id, err := proxywasm.RegisterSharedQueue("callonce/" + hex.EncodeToString(name[:]))
		if err != nil {
			return 0, false
		}
		q.id, q.ready = id, true
	}
	return q.id, true
}

// Send implements guard.Queues.
func (*queue) Send(id uint32, message []byte) { _ = proxywasm.EnqueueSharedQueue(id, message) }

func (q *queue) drain(to func(message []byte)) {
	for q.ready {
		message, err := proxywasm.DequeueSharedQueue(q.id)
		if err != nil {
			return
		}
		to(message)
	}
}

// table is the host's shared data.
type table struct{}

// Get implements ledger.Table.
func (table) Get(key string) (value []byte, cas uint32, found bool, err error) {
	value, cas, err = proxywasm.GetSharedData(key)
	if err == types.ErrorStatusNotFound {
		return nil, 0, false, nil
	}
	return value, cas, err == nil, told(err)
}

// Set implements ledger.Table.
func (table) Set(key string, value []byte, cas uint32) (bool, error) {
	err := proxywasm.SetSharedData(key, value, cas)
	if err == types.ErrorStatusCasMismatch {
		return false, nil
	}
	return err == nil, told(err)
}

// The SDK panics where the proxy will not count. A count that is lost is no reason to refuse a call.

type metrics struct{}

// Counter implements guard.Metrics.
func (metrics) Counter(name string) (c guard.Counter) {
	c = counter(0)
	try("no metric "+name, func() { c = counter(proxywasm.DefineCounterMetric(name)) })
	return c
}

// Gauge implements guard.Metrics.
func (metrics) Gauge(name string) (g guard.Gauge) {
	g = gauge(0)
	try("no metric "+name, func() { g = gauge(proxywasm.DefineGaugeMetric(name)) })
	return g
}

type counter proxywasm.MetricCounter

// Add implements guard.Counter.
func (c counter) Add(n uint64) {
	try("a counter was not counted", func() { proxywasm.MetricCounter(c).Increment(n) })
}

type gauge proxywasm.MetricGauge

// Add implements guard.Gauge.
func (g gauge) Add(n int64) {
	try("a gauge was not changed", func() { proxywasm.MetricGauge(g).Add(n) })
}

// Set implements guard.Gauge. The SDK records values of histograms only, by the function that sets gauges.
func (g gauge) Set(value uint64) {
	try("a gauge was not set", func() { proxywasm.MetricHistogram(g).Record(value) })
}

// Value implements guard.Gauge.
func (g gauge) Value() (value uint64) {
	try("a gauge was not read", func() { value = uint64(proxywasm.MetricGauge(g).Value()) })
	return value
}

func try(what string, f func()) {
	defer func() {
		if text, failed := recover().(string); failed {
			warn(what + ": " + statusIn(text).Error())
		}
	}()
	f()
}
