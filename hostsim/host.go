package hostsim

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config describes a host: the module, how it is configured, and the proxy around it.
type Config struct {
	// Wasm is the module's code.
	Wasm []byte
	// Code is a module compiled before, for many hosts to share. Wasm, CacheDir and MemoryLimit then count for nothing.
	Code *Code
	// PluginConfig and VMConfig are handed to the module as they are.
	PluginConfig, VMConfig []byte
	// VMID names the table of shared data. PluginName and RootID are what the properties of those names say.
	VMID, PluginName, RootID string
	// Workers is the number of worker threads, each with its own VM; 0 means 1.
	Workers int
	// HoldHeaders lets a module that pauses in the request headers see the body meanwhile (Envoy's allow_on_headers_stop_iteration).
	// Without it such a pause halts everything until the module resumes.
	HoldHeaders bool
	// CacheDir keeps compiled code between processes; "" compiles anew.
	CacheDir string
	// BufferLimit is how many bytes of a body may be buffered before the host answers 413 by itself; 0 means 1 MiB.
	BufferLimit int
	// BufferLimitHTTP2 is the same for HTTP/2 clients, where Envoy goes by the stream's window instead; 0 means 16 MiB.
	BufferLimitHTTP2 int
	// MemoryLimit bounds the memory of one VM in bytes; 0 means 1 GiB.
	MemoryLimit int64
	// Clock is the time of modules, ticks and timeouts; nil means RealClock.
	Clock Clock
	// Random fills its argument for WASI's random_get; nil means crypto/rand.
	Random func([]byte)
	// Log gets every line that a module logs or prints. It runs on the worker's loop, or on several at once.
	Log func(worker int, level LogLevel, msg string)
	// Properties are what proxy_get_property answers, by the path joined with dots ("xds.route_name"), on top of what the host
	// knows by itself. A string is its bytes; numbers and truth values are what [Int64], [Uint64], [Double] and [Bool] make of them.
	Properties map[string][]byte
	// Clusters says where callouts find the clusters that they name: a URL each, of which scheme and host count. The scheme h2c is
	// HTTP/2 without encryption, which gRPC servers want.
	Clusters map[string]string
	// Servers are clusters that are functions of a test instead: one is told of each callout as [Request].Server is of a request, and
	// its answer is a step of the worker's loop.
	Servers map[string]func(*Arrival)
	// Foreign are functions that the module may call by name (proxy_call_foreign_function), with an argument of bytes and a result of
	// bytes. They run on the worker's loop, several workers' at once. There is none by itself but "clear_route_cache", which does nothing.
	Foreign map[string]func(argument []byte) ([]byte, Status)
	// Store is the process in which the host lives; nil means a new one.
	Store *Store
	// FailReload brings a VM that failed back on the first request that comes ReloadBackoff (0 means 1 s) after it was last loaded.
	// Without it the worker answers 503 until the configuration changes.
	FailReload    bool
	ReloadBackoff time.Duration
	// DrainTime is how long an old configuration goes on serving its streams after Configure; 0 means 10 minutes. Then they are cut.
	DrainTime time.Duration
	// Hooks let a test watch and steer.
	Hooks Hooks
}

// Host is a proxy process with one plugin: a VM on the main thread and one for each worker.
type Host struct {
	config  Config
	clock   Clock
	store   *Store
	module  *Code
	main    *worker
	workers []*worker

	mu       sync.Mutex // configuration changes come one at a time
	current  atomic.Pointer[pluginConfig]
	clusters map[string]cluster
	settled  func()
	closed   bool
}

// LogLine is one line that a module logged.
type LogLine struct {
	Worker int
	Level  LogLevel
	Text   string
}

// StartError says that the module refused to start, or could not, with what it logged meanwhile.
type StartError struct {
	Stage string // what refused: "plugin start", "VM start", "_initialize", …
	Lines []LogLine
	Err   error // why the VM failed; nil when the module merely returned false
}

// Error states the stage, the cause and the module's own lines, of which the last usually explains.
func (e *StartError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s refused by the module", e.Stage)
	if e.Err != nil {
		b.Reset()
		fmt.Fprintf(&b, "%s failed: %v", e.Stage, e.Err)
	}
	for _, l := range e.Lines {
		fmt.Fprintf(&b, "\n  %s: %s", l.Level, l.Text)
	}
	return b.String()
}

// Unwrap gives the failure of the VM, if there was one.
func (e *StartError) Unwrap() error { return e.Err }

// New compiles the module and starts it as Envoy does: in a trial VM that is thrown away, on the main thread, then on every
// worker. A refusal by the module is a *StartError.
func New(ctx context.Context, c Config) (*Host, error) {
	c.setDefaults()
	h := &Host{config: c, clock: c.Clock, store: c.Store, clusters: map[string]cluster{}}
	if err := h.openClusters(); err != nil {
		return nil, err
	}
	var err error
	if h.module = c.Code; h.module == nil {
		if h.module, err = Compile(ctx, c); err != nil {
			return nil, err
		}
	}
	h.store.acquire(c.VMID)
	if m, ok := h.clock.(*ManualClock); ok {
		h.settled = m.onSettle(h.Wait)
	}
	h.main = newWorker(h, MainThread)
	for i := range c.Workers {
		h.workers = append(h.workers, newWorker(h, i))
	}
	if err := h.start(&pluginConfig{bytes: c.PluginConfig}); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (c *Config) setDefaults() {
	if c.Workers <= 0 {
		c.Workers = 1
	}
	if c.BufferLimit <= 0 {
		c.BufferLimit = 1 << 20
	}
	if c.BufferLimitHTTP2 <= 0 {
		c.BufferLimitHTTP2 = 16 << 20
	}
	if c.MemoryLimit <= 0 {
		c.MemoryLimit = 1 << 30
	}
	if c.Clock == nil {
		c.Clock = RealClock()
	}
	if c.Store == nil {
		c.Store = NewStore()
	}
	if c.ReloadBackoff <= 0 {
		c.ReloadBackoff = time.Second
	}
	if c.DrainTime <= 0 {
		c.DrainTime = 10 * time.Minute
	}
}

// start brings up the first configuration.
func (h *Host) start(p *pluginConfig) error {
	if err := h.try(p); err != nil {
		return err
	}
	h.current.Store(p)
	if err := h.main.begin(p); err != nil {
		return err
	}
	// Workers start at once, each on its own thread, as Envoy's do.
	errs := make([]error, len(h.workers))
	var wg sync.WaitGroup
	for i, w := range h.workers {
		wg.Go(func() { errs[i] = w.begin(p) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// try starts the configuration in a VM of its own on the main thread. Nothing tells that VM when it goes, but what it left in shared
// data stays.
func (h *Host) try(p *pluginConfig) error {
	err := errClosed
	h.main.loop.do("trial", func() {
		var v *vm
		if v, err = newVM(h, h.main.loop, Trial); err == nil {
			err = v.startPlugin(p)
			v.close()
		}
	})
	return err
}

var errClosed = errors.New("the host is closed")

// Configure gives all VMs a second plugin context with the new configuration, which serves the streams from now on; the old one goes on
// with its own, and ticks, until DrainTime has passed. If the module refuses the new one the error is a *StartError and nothing changes.
func (h *Host) Configure(pluginConfigBytes []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errClosed
	}
	p := &pluginConfig{bytes: pluginConfigBytes}
	if err := h.try(p); err != nil {
		return err
	}
	old := h.current.Load()
	var errs []error
	for _, w := range h.all() {
		errs = append(errs, w.configure(p))
	}
	h.current.Store(p)
	h.clock.AfterFunc(h.config.DrainTime, func() { h.drain(old) })
	return errors.Join(errs...)
}

// drain ends an old configuration everywhere.
func (h *Host) drain(p *pluginConfig) {
	for _, w := range h.all() {
		w.loop.post("drain", func() { w.drain(p) })
	}
}

func (h *Host) all() []*worker { return append([]*worker{h.main}, h.workers...) }

func (h *Host) plugin() *pluginConfig { return h.current.Load() }

// Workers is the number of workers.
func (h *Host) Workers() int { return len(h.workers) }

// Store is the process's store.
func (h *Host) Store() *Store { return h.store }

// Tick runs proxy_on_tick now in every plugin context of every VM, on the main thread too, and returns when all have run.
func (h *Host) Tick() {
	var wg sync.WaitGroup
	for _, w := range h.all() {
		wg.Go(func() { w.loop.do("tick", w.tickAll) })
	}
	wg.Wait()
}

// Wait returns once no VM has anything left to do at this moment. What is still under way on the network does not count.
func (h *Host) Wait() {
	for {
		for _, w := range h.all() {
			w.loop.wait()
		}
		quiet := true
		for _, w := range h.all() {
			quiet = quiet && w.loop.quiet()
		}
		if quiet {
			return
		}
	}
}

// Metrics returns the counters, gauges and numbers of recorded histogram values of the host's process, by their raw names.
func (h *Host) Metrics() map[string]int64 { return h.store.Metrics() }

// Crash ends the VM of a worker as a trap would, at its next step.
func (h *Host) Crash(worker int) error {
	if worker < 0 || worker >= len(h.workers) {
		return fmt.Errorf("no worker %d: there are %d", worker, len(h.workers))
	}
	w := h.workers[worker]
	w.loop.do("crash", func() {
		if w.vm != nil {
			w.vm.fail(errCrash)
		}
	})
	return nil
}

// Close ends all VMs without telling them, as a process that exits does. Streams still open are cut.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	if h.settled != nil {
		h.settled()
	}
	stuck := false
	for _, w := range h.all() {
		stuck = !w.close() || stuck
	}
	for _, p := range h.clusters {
		p.Close()
	}
	h.store.release(h.config.VMID)
	if stuck {
		// Code that still runs must not be unmapped under it.
		return errors.New("a worker did not come back from its callback: its memory stays")
	}
	if h.config.Code == nil {
		h.module.Close(context.Background())
	}
	return nil
}

func (h *Host) random(b []byte) {
	if h.config.Random != nil {
		h.config.Random(b)
		return
	}
	rand.Read(b)
}

// Quiet says whether a worker, or MainThread, has no step queued or running at this moment.
func (h *Host) Quiet(worker int) bool {
	if worker == MainThread {
		return h.main.loop.quiet()
	}
	return h.workers[worker].loop.quiet()
}

// TickWorker queues proxy_on_tick for every plugin context of one worker, or of MainThread, and returns at once.
func (h *Host) TickWorker(worker int) {
	w := h.main
	if worker != MainThread {
		w = h.workers[worker]
	}
	w.loop.post("tick", w.tickAll)
}
