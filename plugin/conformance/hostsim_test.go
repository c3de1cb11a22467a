package conformance

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

// openSources opens every file that the filter is made of. Go keeps the results of
// tests by the files that they open, and cannot see what a compiler opened for them:
// without this it would give an older filter's result for a changed one.
var openSources = sync.OnceValue(func() error {
	for _, pattern := range []string{"../*.go", "../sdk/*", "../internal/*/*.go", "../internal/*/*/*.go", "../../canonical/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				return err
			}
		}
	}
	return nil
})

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
	sdk    bool   // the filter on the Go SDK, whatever else is asked for
	trace  *trace // takes down what comes out
	adjust func(*hostsim.Config)
	pick   func(*http.Request) int // worker of a request; nil = each connection one in turn
}

func (simulator) Name() string { return "hostsim" }

func (f simulator) config(t testing.TB, s Setup) (hostsim.Config, *lines) {
	if err := openSources(); err != nil {
		t.Fatal(err)
	}
	workers := s.Workers
	if workers == 0 {
		workers = 2
	}
	logs := &lines{}
	wasm := f.wasm
	if wasm == nil {
		wasm = shipped
	}
	switch {
	case s.Faults:
		wasm = faulty
	case s.Small:
		wasm = small
	}
	if f.sdk {
		wasm = onSDK(t, wasm)
	}
	c := hostsim.Config{
		Wasm: wasm, PluginConfig: []byte(s.Config), VMID: vmID, PluginName: "callonce",
		Workers: workers, HoldHeaders: !s.NoHoldHeaders, CacheDir: compiled(t), FailReload: true, DrainTime: s.Drain,
		Properties: map[string][]byte{"xds.virtual_host_name": []byte("vh"), "xds.route_name": []byte("mcp")},
		Log:        func(_ int, _ hostsim.LogLevel, msg string) { logs.add(msg) },
	}
	if s.Upstream != "" {
		c.Properties["xds.cluster_name"] = []byte("mcp_server")
		c.Clusters = map[string]string{"mcp_server": s.Upstream}
	}
	if f.adjust != nil {
		f.adjust(&c)
	}
	f.trace.listen(&c)
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
	p := &simulated{front: f, setup: s, upstream: upstream, logs: logs, config: c, callers: map[string]Caller{}}
	p.load(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.url = "http://" + l.Addr().String()
	l = f.trace.tap(l)
	switch {
	case s.Canary != "":
		p.weigh(t, l, s.Canary)
	case s.Changes:
		p.serveWhatIsNewest(l)
	default:
		go func() { _ = p.proxy.Serve(l) }()
	}
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
	others  []func()     // end what else there is
	server  *http.Server // nil where proxy serves by itself
	records []hostsim.Record
	once    sync.Once
	callers map[string]Caller
}

// options are those of every proxy before this setup's servers.
func (p *simulated) options() hostsim.ProxyOptions {
	setup := p.setup
	return hostsim.ProxyOptions{
		AccessLog: p.record, RouteRetries: setup.Retries, IdleTimeout: setup.IdleTimeout, Pick: p.front.pick, Trailers: true,
		Properties: func(r *http.Request, path string) ([]byte, bool) {
			v, ok := p.attributes(setup, r)[path]
			return []byte(v), ok
		},
		Metadata: p.metadata,
	}
}

func (p *simulated) record(r hostsim.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = append(p.records, r)
}

func (p *simulated) URL() string { return p.url }

func (p *simulated) Counter(t testing.TB, name string, labels map[string]string) int64 {
	if p.front.trace != nil { // the clock stands, and what a worker counts is told at its tick
		p.host.Tick()
		p.host.Wait()
	}
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
			"outcome": r.FilterState["callonce.outcome"], "key_hash": r.FilterState["callonce.key_hash"], "tool": r.FilterState["callonce.tool"],
			"settled": r.FilterState["callonce.settled"], "settled_by": r.FilterState["callonce.settled_by"],
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
		p.front.trace.take(p)
		for _, end := range p.others {
			end()
		}
		_ = p.host.Close()
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

func TestCrowd(t *testing.T) { Crowd(t, simulator{}) }

func TestTypedClaims(t *testing.T) { TypedClaims(t, simulator{}) }

func TestJoinedNames(t *testing.T) { JoinedNames(t, simulator{}) }

func TestSteeringCookies(t *testing.T) { SteeringCookies(t, simulator{}) }

func TestForgetting(t *testing.T) { Forgetting(t, simulator{}) }

func TestLarge(t *testing.T) { Large(t, simulator{}) }

func TestEnds(t *testing.T) { Ends(t, simulator{}) }

func TestPresetsPlayed(t *testing.T) { Presets(t, simulator{}) }

func TestDetached(t *testing.T) { Detached(t, simulator{}) }

func TestWaiting(t *testing.T) { Waiting(t, simulator{}) }

func TestTroubles(t *testing.T) { Troubles(t, simulator{}) }

func TestHints(t *testing.T) { Hints(t, simulator{}) }

func TestCauses(t *testing.T) { Causes(t, simulator{}) }

func TestOperators(t *testing.T) { Operators(t, simulator{}) }

func TestFirstLine(t *testing.T) { FirstLine(t, simulator{}, "../..") }

// The same where the host cannot hold headers. Some cases try both by themselves.
func TestCasesHeadersNotHeld(t *testing.T) {
	Run(t, notHeld{simulator{}}, againNotHeld)
}

func againNotHeld(c Case) bool {
	return again(c) && !slices.Contains([]int{33, 34, 55, 56, 71, 74}, c.Number)
}

type notHeld struct{ simulator }

func (f notHeld) Start(t testing.TB, s Setup) Proxy {
	s.NoHoldHeaders = true
	return f.simulator.Start(t, s)
}
