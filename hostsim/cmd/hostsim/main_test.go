package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const patience = 20 * time.Second

var probe, cache string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hostsim")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	probe, cache = filepath.Join(dir, "probe.wasm"), filepath.Join(dir, "cache")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-buildmode=c-shared", "-o", probe, ".")
	cmd.Dir, cmd.Env = "../../testdata/probe", append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the probe: %v\n%s", err, b)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// output is a buffer that another goroutine writes to.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (o *output) find(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if m := re.FindStringSubmatch(o.String()); m != nil {
			return m
		}
	}
	t.Fatalf("%q never came:\n%s", pattern, o.String())
	return nil
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestServe(t *testing.T) {
	gate := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		if r.URL.Path == "/slow" {
			w.(http.Flusher).Flush()
			<-gate
		}
	}))
	defer up.Close()
	config := write(t, "config", "start register probe\nstart sharedset started yes 0\n")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var stdout, stderr output
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"serve", "--plugin", probe, "--config", config, "--listen", "127.0.0.1:0", "--upstream", up.URL, "--workers", "2",
			"--cache", cache, "--route", "theroute", "--metadata", "cc.policy=pay", "--property", "xds.cluster_name=up"}, &stdout, &stderr)
	}()
	url := stderr.find(t, `listening on (http://127\.0\.0\.1:[1-9]\d*), upstream http://[0-9.:]+, 2 workers`)[1]
	req, _ := http.NewRequest("POST", url+"/ok?x=1", strings.NewReader("body"))
	req.Header.Set("x-name", "A")
	req.Header.Set("x-do", "rh setprop callonce.outcome first; rh setprop callonce.key_hash 0123456789abcdef; rh setprop callonce.mode observe; rh setprop callonce.tool charge; rh setprop callonce.refusal x=1; rh prop xds/route_name; rh prop xds/route_metadata/filter_metadata/cc/policy; rh prop xds/cluster_name")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(resp.Body); string(b) != "hello" {
		t.Errorf("body %q", b)
	}
	resp.Body.Close()
	stdout.find(t, `(?m)^\d{4}-\d\d-\d\dT[0-9:.]+\S* POST /ok\?x=1 200 \d+ms worker=[01] outcome=first key=0123456789abcdef tool=charge refusal="x=1" mode=observe$`)
	for _, want := range []string{`xds/route_name -> "theroute"`, `policy -> "pay"`, `cluster_name -> "up"`} {
		stderr.find(t, regexp.QuoteMeta(want))
	}
	if n := strings.Count(stderr.String(), "sharedset started"); n != 1 {
		t.Errorf("what each VM says at its start was printed %d times, want 1", n)
	}

	// A stop lets the open stream end, and ends with 0.
	slow, err := http.Get(url + "/slow")
	if err != nil {
		t.Fatal(err)
	}
	stop()
	stderr.find(t, "stopping")
	close(gate)
	if b, err := io.ReadAll(slow.Body); err != nil || string(b) != "hello" {
		t.Errorf("the open stream: %q, %v", b, err)
	}
	slow.Body.Close()
	select {
	case s := <-status:
		if s != 0 {
			t.Errorf("exit status %d:\n%s", s, stderr.String())
		}
	case <-time.After(patience):
		t.Fatal("serve does not end")
	}
	stdout.find(t, `(?m) GET /slow 200 \d+ms worker=[01] outcome=- key=-$`)
}

func TestMistakes(t *testing.T) {
	refuse := write(t, "refuse", "start refuse because of it\n")
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	taken := strings.TrimPrefix(server.URL, "http://")
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, 2, "hostsim serve --plugin"},
		{[]string{"fly"}, 2, `unknown command "fly"; there are serve and check`},
		{[]string{"serve"}, 2, "serve needs --plugin and --upstream"},
		{[]string{"serve", "--plugin", "x", "--upstream", "localhost:1"}, 2, `--upstream: want http://HOST:PORT or https://HOST, found "localhost:1"`},
		{[]string{"serve", "--plugin", "x", "--upstream", "http://h:1/base"}, 2, `a path ("/base") has no effect`},
		{[]string{"serve", "--plugin", "x", "--upstream", "http://h:1", "--workers", "0"}, 2, "--workers: want 1 or more, found 0"},
		{[]string{"serve", "--plugin", "x", "--upstream", "http://h:1", "--metadata", "nothing"}, 2, `want KEY=VALUE, found "nothing"`},
		{[]string{"serve", "--plugin", "x", "--upstream", "http://h:1", "more"}, 2, `unexpected argument "more"`},
		{[]string{"serve", "--bogus"}, 2, "-bogus"},
		{[]string{"serve", "--plugin", "/nonexistent/x.wasm", "--upstream", "http://h:1", "--cache", ""}, 1, "--plugin: open /nonexistent/x.wasm"},
		{[]string{"serve", "--plugin", probe, "--config", refuse, "--upstream", "http://h:1", "--cache", cache}, 1, "plugin start refused by the module"},
		{[]string{"check"}, 2, "check needs --config"},
		{[]string{"check", "--config", refuse, "--plugin", probe, "--cache", cache}, 1, "because of it"},
		{[]string{"check", "--config", "/nonexistent"}, 1, "--config: open /nonexistent"},
		{[]string{"check", "--config", refuse}, 1, refuse + ":\n  configuration: "},
		{[]string{"check", "conf.json"}, 2, `unexpected argument "conf.json": did you mean --config conf.json?`},
		{[]string{"check", "--config", refuse, "--plugin", probe, "--strict"}, 2, "--strict is for the built-in reader"},
		{[]string{"check", "--config", write(t, "envoy.yaml", "# Envoy\nstatic_resources:\n")}, 1, "not the YAML around it"},
		{[]string{"check", "x.wasm"}, 2, "did you mean --plugin x.wasm?"},
		{[]string{"serve", "--plugin", "x", "http://h:1"}, 2, "did you mean --upstream http://h:1?"},
		{[]string{"serve", "--plugin", probe, "--upstream", "http://h:1", "--listen", taken, "--cache", cache}, 1, "--listen: another program has " + taken + " already: end that one, or name another port"},
		{[]string{"serve", "--plugin", probe, "--upstream", "http://h:1", "--admin", taken, "--cache", cache}, 1, "--admin: another program has " + taken + " already"},
	} {
		var stdout, stderr output
		got := run(context.Background(), c.args, &stdout, &stderr)
		if got != c.status || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%q: status %d, want %d; printed\n%s\nwant in it: %s", c.args, got, c.status, stderr.String(), c.want)
		}
	}
}

// What the filter says of its configuration is printed once, although every VM says it and the refusal tells it too.
func TestRefusalsAreToldOnce(t *testing.T) {
	refuse := write(t, "refuse", "start refuse because of it\n")
	for _, args := range [][]string{{"serve", "--upstream", "http://h:1", "--workers", "3"}, {"check"}} {
		var stdout, stderr output
		run(context.Background(), append(args, "--plugin", probe, "--config", refuse, "--cache", cache), &stdout, &stderr)
		if n := strings.Count(stderr.String(), "-> because of it"); n != 1 {
			t.Errorf("%s: told %d times, want once:\n%s", args[0], n, stderr.String())
		}
	}
}

// A stop does not wait for a filter that is still being compiled or started.
func TestStopWhileStarting(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	var stdout, stderr output
	got := run(ctx, []string{"serve", "--plugin", probe, "--upstream", "http://h:1", "--cache", ""}, &stdout, &stderr)
	if got != 0 || !strings.Contains(stderr.String(), "stopped before the filter had started") {
		t.Errorf("status %d:\n%s", got, stderr.String())
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"--help"}, {"serve", "--help"}, {"check", "-h"}} {
		var stdout, stderr output
		if got := run(context.Background(), args, &stdout, &stderr); got != 0 {
			t.Errorf("%q: status %d", args, got)
		}
		if !strings.Contains(stdout.String()+stderr.String(), "--config FILE") {
			t.Errorf("%q does not help: %s%s", args, stdout.String(), stderr.String())
		}
	}
}

// The reader of configurations can be another, or none: then only the filter itself can be asked.
func TestCheck(t *testing.T) {
	good := write(t, "good", "start register probe\n")
	var stdout, stderr output
	if got := run(context.Background(), []string{"check", "--config", good, "--plugin", probe, "--cache", cache}, &stdout, &stderr); got != 0 || !strings.Contains(stdout.String(), "good: ok") {
		t.Errorf("status %d: %s%s", got, stdout.String(), stderr.String())
	}
	old := checkConfig
	defer func() { checkConfig = old }()
	checkConfig = nil
	if got := run(context.Background(), []string{"check", "--config", good}, &stdout, &stderr); got != 2 || !strings.Contains(stderr.String(), "check needs --plugin") {
		t.Errorf("without a reader: status %d: %s", got, stderr.String())
	}
	checkConfig = func(b []byte) ([]string, error) {
		return nil, errors.New("/limits/ttl: want a duration, found " + string(b))
	}
	if got := run(context.Background(), []string{"check", "--config", good}, &stdout, &stderr); got != 1 || !strings.Contains(stderr.String(), "/limits/ttl: want a duration, found start register") {
		t.Errorf("with a reader of its own: status %d: %s", got, stderr.String())
	}
}

// Warnings end a check only where it is strict, and then with a status of their own.
func TestCheckStrict(t *testing.T) {
	for _, c := range []struct {
		config, flag string
		status       int
		out, err     string
	}{
		{`{}`, "", 0, ": warning: nothing is guarded", ""},
		{`{}`, "--strict", 3, ": warning: nothing is guarded", "warnings, which --strict takes for mistakes"},
		{`{"policies":{"p":{"anonymous":true,"strip":true}},"default":"p"}`, "--strict", 0, ": ok\n", ""},
		{`{"policies":{"p":{"anonymous":true}},"default":"p"}`, "--strict", 3, ": warning: /policies/p/strip is not there, so the header idempotency-key goes on", "warnings, which --strict takes for mistakes"},
		{`{"default":"p"}`, "--strict", 1, "", "/default: found"},
	} {
		args := []string{"check", "--config", write(t, "c.json", c.config)}
		if c.flag != "" {
			args = append(args, c.flag)
		}
		var stdout, stderr output
		got := run(context.Background(), args, &stdout, &stderr)
		if got != c.status || !strings.Contains(stdout.String(), c.out) || !strings.Contains(stderr.String(), c.err) || got != 0 && strings.Contains(stdout.String(), ": ok") {
			t.Errorf("%s %s: status %d, want %d; printed\n%s%s", c.config, c.flag, got, c.status, stdout.String(), stderr.String())
		}
	}
}
