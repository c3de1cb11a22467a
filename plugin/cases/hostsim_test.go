package cases

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// The filter as it ships, the same with a table of a handful of buckets, and one with
// faults to order.
var shipped, small, faulty []byte

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "callonce-cases-")
	if err != nil {
		panic(err)
	}
	for tags, into := range map[string]*[]byte{"": &shipped, "smalltable": &small, "faults": &faulty} {
		if *into, err = build(dir, tags); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build compiles the filter. Go's own cache makes the second time quick.
func build(dir, tags string) ([]byte, error) {
	out := filepath.Join(dir, "callonce-"+tags+".wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-tags="+tags, "-o", out, "github.com/callonce/callonce/plugin")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the filter does not build: %v\n%s", err, text)
	}
	return os.ReadFile(out)
}

// compiled is where hostsim keeps machine code between test runs.
func compiled(t testing.TB) string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "callonce", "hostsim-tests")
}

// simulator is hostsim as a front. A test that needs more of it sets the members.
type simulator struct {
	wasm   []byte
	adjust func(*hostsim.Config)
	pick   func(*http.Request) int // worker of a request; nil = each connection one in turn
}

func (simulator) Name() string { return "hostsim" }

func (f simulator) config(t testing.TB, s Setup) (hostsim.Config, *lines) {
	workers := s.Workers
	if workers == 0 {
		workers = 2
	}
	logs := &lines{}
	wasm := f.wasm
	if wasm == nil {
		wasm = shipped
	}
	if s.Faults {
		wasm = faulty
	}
	c := hostsim.Config{
		Wasm: wasm, PluginConfig: []byte(s.Config), VMID: vmID, PluginName: "callonce",
		Workers: workers, HoldHeaders: !s.NoHoldHeaders, CacheDir: compiled(t), FailReload: true, DrainTime: s.Drain,
		Properties: map[string][]byte{"xds.virtual_host_name": []byte("vh"), "xds.route_name": []byte("mcp")},
		Log:        func(_ int, _ hostsim.LogLevel, msg string) { logs.add(msg) },
	}
	if f.adjust != nil {
		f.adjust(&c)
	}
	return c, logs
}

const vmID = "callonce"

func (f simulator) Start(t testing.TB, s Setup) Proxy {
	t.Helper()
	p := f.start(t, s)
	return p
}

// start is Start, for tests that want more of the host than a Proxy shows.
func (f simulator) start(t testing.TB, s Setup) *simulated {
	t.Helper()
	c, logs := f.config(t, s)
	upstream, err := url.Parse(s.Upstream)
	if err != nil {
		t.Fatal(err)
	}
	p := &simulated{front: f, setup: s, upstream: upstream, logs: logs, config: c}
	p.load(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.url = "http://" + l.Addr().String()
	p.serve(l)
	t.Cleanup(p.Close)
	return p
}

func (f simulator) StartError(t testing.TB, s Setup) string {
	t.Helper()
	c, _ := f.config(t, s)
	h, err := hostsim.New(context.Background(), c)
	if err == nil {
		_ = h.Close()
		t.Fatal("the configuration was taken, expected a refusal")
	}
	return err.Error()
}

type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, s)
}

// simulated is a running hostsim.
type simulated struct {
	front    simulator
	setup    Setup
	config   hostsim.Config
	upstream *url.URL
	url      string
	logs     *lines

	mu      sync.Mutex
	host    *hostsim.Host // the newest
	proxy   *hostsim.Proxy
	old     []func() // ends what was replaced
	server  *http.Server
	records []hostsim.Record
	once    sync.Once
}

// load starts the code and configuration that the setup asks for, in the process that
// there may be already.
func (p *simulated) load(t testing.TB) {
	t.Helper()
	h, err := hostsim.New(context.Background(), p.config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := hostsim.NewProxy(h, p.upstream, hostsim.ProxyOptions{
		AccessLog: p.record, RouteRetries: p.setup.Retries, IdleTimeout: p.setup.IdleTimeout, Pick: p.front.pick,
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host != nil {
		oldHost, oldProxy := p.host, p.proxy
		p.old = append(p.old, func() { _, _ = oldProxy.Close(), oldHost.Close() })
	}
	p.host, p.proxy = h, proxy
}

// serve takes connections. Where the code may be changed, the server must outlive a
// hostsim.Proxy.
func (p *simulated) serve(l net.Listener) {
	if !p.setup.Changes {
		go func() { _ = p.proxy.Serve(l) }()
		return
	}
	p.server = &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		now := p.proxy
		p.mu.Unlock()
		now.ServeHTTP(w, r)
	})}
	p.server.Protocols.SetHTTP1(true)
	p.server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = p.server.Serve(l) }()
}

// Change implements Proxy.
func (p *simulated) Change(t testing.TB, config string, faults bool) {
	t.Helper()
	if faults == p.setup.Faults {
		if err := p.host.Configure([]byte(config)); err != nil {
			t.Fatal(err)
		}
		return
	}
	p.setup.Config, p.setup.Faults = config, faults
	c, _ := p.front.config(t, p.setup)
	c.Store, c.Log = p.host.Store(), p.config.Log
	p.config = c
	p.load(t)
}

// Memory implements Proxy.
func (p *simulated) Memory(testing.TB) int64 {
	var sum int64
	for i := range p.host.Workers() {
		sum += p.host.Memory(i)
	}
	return sum
}

func (p *simulated) record(r hostsim.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = append(p.records, r)
}

func (p *simulated) URL() string { return p.url }

func (p *simulated) Counter(t testing.TB, name string, labels map[string]string) int64 {
	var sum int64
	for full, v := range p.host.Metrics() {
		if !strings.HasSuffix(full, name) {
			continue
		}
		has := true
		for k, want := range labels {
			has = has && strings.Contains(";.;"+full, ";.;"+k+"=.="+want+";.;")
		}
		if has {
			sum += v
		}
	}
	return sum
}

func (p *simulated) AccessLog(testing.TB) []map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []map[string]string
	for _, r := range p.records {
		out = append(out, map[string]string{
			"status": fmt.Sprint(r.Status), "details": r.Details, "flags": r.Flags,
			"outcome": r.FilterState["callonce.outcome"], "key_hash": r.FilterState["callonce.key_hash"],
		})
	}
	return out
}

func (p *simulated) Logs() string {
	p.logs.mu.Lock()
	defer p.logs.mu.Unlock()
	return strings.Join(p.logs.text, "\n")
}

func (p *simulated) Close() {
	p.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if p.server != nil {
			_ = p.server.Close()
		}
		_ = p.proxy.Shutdown(ctx)
		_ = p.proxy.Close()
		_ = p.host.Close()
		for _, end := range p.old {
			end()
		}
	})
}

// Every case, under hostsim, with the filter as it ships.
func TestCases(t *testing.T) {
	Run(t, simulator{}, func(Case) bool { return true })
}

// again are the cases that are worth another run under another host: not those that
// need much room or time.
func again(c Case) bool {
	return !slices.Contains([]int{11, 13, 14, 30, 31, 37, 38, 51}, c.Number)
}

// The same with a handful of buckets, so that every key meets every other.
func TestCasesInASmallTable(t *testing.T) { Run(t, simulator{wasm: small}, again) }

// The same where the host cannot hold headers.
func TestCasesHeadersNotHeld(t *testing.T) { Run(t, notHeld{simulator{}}, again) }

type notHeld struct{ simulator }

func (f notHeld) Start(t testing.TB, s Setup) Proxy {
	s.NoHoldHeaders = true
	return f.simulator.Start(t, s)
}
