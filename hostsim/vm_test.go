package hostsim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// crashPlans end the VM in one of the ways that a module has, each at another callback.
var crashPlans = []struct{ name, method, path, plan string }{
	{"panic in the request headers", "POST", "/ok", "rh panic"},
	{"panic in the request body", "POST", "/ok", "rh pause; rb pause; re panic"},
	{"panic in the response headers", "POST", "/ok", "sh panic"},
	{"stack overflow", "POST", "/ok", "rh overflow"},
}

// A module that dies answers an empty 503, its worker 503 until it may come back, and then it serves again.
func TestPanicAndReload(t *testing.T) {
	for _, c := range crashPlans {
		t.Run(c.name, func(t *testing.T) {
			clock := NewManualClock(time.Unix(1e9, 0))
			r := newRig(t, func(cfg *Config, _ *ProxyOptions) { cfg.Clock, cfg.FailReload = clock, true })
			r.do("POST", "/ok", "S", "rh sharedset k v 0", "x")
			if a := r.do(c.method, c.path, "A", c.plan, "x"); a.status != 503 || a.body != "" {
				t.Errorf("the stream itself: got %d %q, want an empty 503", a.status, a.body)
			}
			if streamEnded(r.book.all("A ")) {
				t.Error("the module was told of the end")
			}
			if a := r.do("POST", "/ok", "B", "", "x"); a.status != 503 || a.body != "" {
				t.Errorf("the next request: got %d %q, want an empty 503", a.status, a.body)
			}
			clock.Advance(999 * time.Millisecond)
			if a := r.do("POST", "/ok", "C", "", "x"); a.status != 503 {
				t.Errorf("just before the backoff: got %d", a.status)
			}
			clock.Advance(time.Millisecond)
			if a := r.do("POST", "/ok", "D", "rh sharedget k", "x"); a.status != 200 {
				t.Errorf("after it: got %d", a.status)
			}
			if got := r.end("D"); !hasPrefix(got, `rh sharedget k -> "v"`) {
				t.Errorf("shared data after the reload: %q", got)
			}
			if !hasPrefix(r.book.all("log worker=0 critical: "), "VM failed: ") {
				t.Error("the log does not tell of the failure")
			}
		})
	}
}

// The backoff counts from when the VM was loaded: one that has run long enough comes back at once.
func TestReloadCountsFromTheLoad(t *testing.T) {
	clock := NewManualClock(time.Unix(1e9, 0))
	r := newRig(t, func(c *Config, _ *ProxyOptions) { c.Clock, c.FailReload = clock, true })
	clock.Advance(time.Minute)
	r.do("POST", "/ok", "A", "rh panic", "x")
	if a := r.do("POST", "/ok", "B", "", "x"); a.status != 200 {
		t.Errorf("got %d, want 200 at once", a.status)
	}
	r.do("POST", "/ok", "C", "rh panic", "x")
	if a := r.do("POST", "/ok", "D", "", "x"); a.status != 503 {
		t.Errorf("got %d, want 503: it has only just come back", a.status)
	}
}

// Without FailReload the worker stays down, the others serve, and a new configuration brings it back.
func TestFailureStaysUntilConfigured(t *testing.T) {
	clock := NewManualClock(time.Unix(1e9, 0))
	r := newRig(t, func(c *Config, o *ProxyOptions) { c.Clock, c.Workers, o.Pick = clock, 2, pickByHeader })
	if err := r.host.Crash(1); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Hour)
	for worker, want := range []int{200, 503} {
		if a := r.do("POST", "/ok", "A", "", "x", "x-worker", fmt.Sprint(worker)); a.status != want {
			t.Errorf("worker %d: got %d, want %d", worker, a.status, want)
		}
	}
	if err := r.host.Configure([]byte("start register again\n")); err != nil {
		t.Fatal(err)
	}
	if a := r.do("POST", "/ok", "B", "", "x", "x-worker", "1"); a.status != 200 {
		t.Errorf("after Configure: got %d", a.status)
	}
	if err := r.host.Crash(2); err == nil || !strings.Contains(err.Error(), "no worker 2") {
		t.Errorf("crash of a worker that is not there: %v", err)
	}
}

// All other streams of the VM suffer: one that streams is cut at its next piece, one that waits for its response gets a 503, one that is
// held hangs until a timeout of the host, and none of them is told of its end. Another worker's go on.
func TestOtherStreamsOfADeadVM(t *testing.T) {
	r := newRig(t, func(c *Config, o *ProxyOptions) {
		c.Workers, o.Pick, o.IdleTimeout = 2, pickByHeader, 1500*time.Millisecond
	})
	releaseSSE, releaseOK := r.up.hold("/sse"), r.up.hold("/ok")
	type stream struct{ name, path, plan, worker string }
	streams := []stream{
		{"S", "/sse", "", "0"}, {"W", "/ok", "", "0"}, {"H", "/204", "rh pause; rb pause; re pause", "0"}, {"O", "/sse", "", "1"},
	}
	answers := map[string]answer{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, s := range streams {
		wg.Go(func() {
			a := r.do("POST", s.path, s.name, s.plan, "x", "x-worker", s.worker)
			mu.Lock()
			answers[s.name] = a
			mu.Unlock()
		})
	}
	for _, name := range []string{"S", "O"} {
		r.book.wait(t, name+" sb", threeEvents)
	}
	for _, name := range []string{"W", "H"} {
		r.book.wait(t, name+" re", func(l []string) bool { return len(l) > 0 })
	}
	r.host.Crash(0)
	releaseSSE()
	releaseOK()
	wg.Wait()
	if a := answers["S"]; a.status != 200 || a.err == nil || a.body != "ev000ev001ev002" {
		t.Errorf("streaming: %+v, want it cut", a)
	}
	if a := answers["W"]; a.status != 503 || a.body != "" {
		t.Errorf("waiting: %+v, want an empty 503", a)
	}
	if a := answers["H"]; a.status != 503 || a.body != "" {
		t.Errorf("held: %+v, want an empty 503, late", a)
	}
	if a := answers["O"]; a.status != 200 || a.err != nil {
		t.Errorf("on the other worker: %+v", a)
	}
	for _, name := range []string{"S", "W", "H"} {
		if streamEnded(r.book.all(name + " ")) {
			t.Errorf("%s was told of its end", name)
		}
	}
	r.end("O")
}

// A local reply in the stream's end ends the whole of Envoy; here it ends the VM, so that a test sees it.
func TestLocalReplyAtTheEnd(t *testing.T) {
	r := newRig(t, nil)
	r.do("POST", "/ok", "A", "done reply 500 no", "x")
	r.host.Wait()
	if a := r.do("POST", "/ok", "B", "", "x"); a.status != 503 {
		t.Errorf("got %d", a.status)
	}
	if got := r.book.all("log worker=0 critical: "); len(got) != 1 || !strings.Contains(got[0], errReplyAtEnd.Error()) {
		t.Errorf("log: %q", got)
	}
}

// The order of a start: the trial, the main thread, then the workers.
func TestStartOrder(t *testing.T) {
	var mu sync.Mutex
	var order []int
	newRig(t, func(c *Config, _ *ProxyOptions) {
		c.Workers = 4
		c.Hooks.Before = func(call *Call) Verdict {
			if call.Function == "proxy_register_shared_queue" {
				mu.Lock()
				order = append(order, call.Worker)
				mu.Unlock()
				if call.Context != 1 {
					t.Errorf("plugin context %d, want 1", call.Context)
				}
			}
			return Proceed()
		}
	})
	if len(order) != 6 || order[0] != Trial || order[1] != MainThread {
		t.Fatalf("starts: %v, want the trial, the main thread, then four workers", order)
	}
	if slices.Sort(order[2:]); !slices.Equal(order[2:], []int{0, 1, 2, 3}) {
		t.Errorf("workers: %v", order[2:])
	}
}

func TestRefusedStart(t *testing.T) {
	_, err := New(context.Background(), Config{Wasm: probeWasm, CacheDir: cacheDir, PluginConfig: []byte("start refuse because of it\n")})
	var refused *StartError
	if !errors.As(err, &refused) || refused.Stage != "plugin start" || refused.Err != nil {
		t.Fatalf("got %v, want a StartError", err)
	}
	if !strings.Contains(err.Error(), "plugin start refused by the module") || !strings.Contains(err.Error(), "start refuse because of it -> because of it") {
		t.Errorf("the error does not carry the module's lines: %v", err)
	}
	_, err = New(context.Background(), Config{Wasm: probeWasm, CacheDir: cacheDir, PluginConfig: []byte("start panic\n")})
	if !errors.As(err, &refused) || refused.Err == nil || !strings.Contains(err.Error(), "the plan says so") {
		t.Errorf("a panic in the start: got %v", err)
	}
}

// A new configuration is a second plugin context in the same VMs; the old one goes on ticking and serving until it has drained.
func TestConfigure(t *testing.T) {
	clock := NewManualClock(time.Unix(1e9, 0))
	r := newRig(t, func(c *Config, _ *ProxyOptions) {
		c.Clock, c.DrainTime = clock, time.Minute
		c.PluginConfig = []byte("start every 1000\ntick counter old 1\n")
	})
	release := r.up.hold("/sse")
	defer release()
	open := make(chan answer, 1)
	go func() { open <- r.do("POST", "/sse", "S", "done prop plugin_name", "x") }()
	r.book.wait(t, "S sb", threeEvents)

	if err := r.host.Configure([]byte("start refuse it\n")); err == nil || !strings.Contains(err.Error(), "refuse it") {
		t.Fatalf("a refused configuration: %v", err)
	}
	if err := r.host.Configure([]byte("start every 1000\ntick counter new 1\n")); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	if m := r.host.Metrics(); m["old"] != 2 || m["new"] != 2 {
		t.Errorf("ticks: old %d, new %d, want 2 and 2", m["old"], m["new"])
	}
	r.do("POST", "/ok", "N", "", "x")
	r.end("N")
	if got := r.book.all("plugin_done"); len(got) != 0 {
		t.Errorf("ended before draining: %q", got)
	}
	clock.Advance(time.Minute)
	if a := <-open; a.err == nil {
		t.Errorf("the old stream was not cut: %+v", a)
	}
	if lines := r.end("S"); !hasPrefix(lines, `done details="downstream_local_disconnect(filter_chain_is_being_removed)"`) {
		t.Errorf("the old stream's end: %q", lines)
	}
	if got := r.book.all("plugin_done ctx="); len(got) != 2 {
		t.Errorf("plugin ends: %q, want one for the worker and one for the main thread", got)
	}
	before := r.host.Metrics()
	clock.Advance(time.Second)
	if m := r.host.Metrics(); m["old"] != before["old"] || m["new"] != before["new"]+2 {
		t.Errorf("ticks after draining: %v, before %v", m, before)
	}
}

func TestModuleIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	command := filepath.Join(dir, "command.wasm")
	if err := buildWasm("./testdata/probe", command); err != nil {
		t.Fatal(err)
	}
	asCommand, err := os.ReadFile(command)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		wasm []byte
		want []string
	}{
		{"nothing", nil, []string{"Config.Wasm is empty"}},
		{"no wasm", []byte("hello"), []string{"compile module"}},
		{"a command", asCommand, []string{"must export _initialize", "_start", "-buildmode=c-shared"}},
		{"an unknown import", strangeWasm, []string{"does not have: env.proxy_frobnicate", "proxy_abi_version_0_2_0", "must export _initialize", "malloc"}},
	} {
		_, err := New(context.Background(), Config{Wasm: c.wasm, CacheDir: cacheDir})
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", c.name, err, want)
			}
		}
	}
}

// strangeWasm imports env.proxy_frobnicate: a type () -> (), one import, nothing else.
var strangeWasm = append([]byte{0, 'a', 's', 'm', 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 2, 24, 1, 3, 'e', 'n', 'v', 16},
	append([]byte("proxy_frobnicate"), 0, 0)...)

// Memory beyond the limit ends the VM, and only it.
func TestMemoryLimit(t *testing.T) {
	r := newRig(t, func(c *Config, _ *ProxyOptions) {
		c.MemoryLimit, c.FailReload, c.ReloadBackoff = 64<<20, true, time.Nanosecond
	})
	if a := r.do("POST", "/ok", "A", "rh eat 200", "x"); a.status != 503 {
		t.Errorf("got %d", a.status)
	}
	if a := r.do("POST", "/ok", "B", "rh eat 4", "x"); a.status != 200 {
		t.Errorf("after it: got %d", a.status)
	}
}

func TestClosedHost(t *testing.T) {
	r := newRig(t, nil)
	release := r.up.hold("/sse")
	defer release()
	got := make(chan answer, 1)
	go func() { got <- r.do("POST", "/sse", "A", "", "x") }()
	r.book.wait(t, "A sb", threeEvents)
	for range 2 {
		if err := r.host.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if a := <-got; a.err == nil {
		t.Errorf("an open stream was not cut: %+v", a)
	}
	if a := r.do("POST", "/ok", "B", "", "x"); a.status != 503 {
		t.Errorf("a new one: %d", a.status)
	}
	if err := r.host.Configure(nil); !errors.Is(err, errClosed) {
		t.Errorf("Configure: %v", err)
	}
	r.host.Tick()
	r.host.Wait()
}
