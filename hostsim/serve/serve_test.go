package serve

import (
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
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
	"github.com/callonce/callonce/hostsim/hosttest"
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
	cmd.Dir, cmd.Env = "../testdata/probe", append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the probe: %v\n%s", err, b)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// run runs the command that the tests are about: it knows what the probe is told, and one thing of the requests.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := Command{Name: "hostsim", Matchers: []Matcher{{Name: "tool", About: "what is named", Read: named}}, LogFields: []LogField{{Name: "key", State: "wasm.app.key"}}}
	return c.Run(ctx, args, stdout, stderr)
}

func named(body []byte) string {
	_, rest, _ := strings.Cut(string(body), `"name":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
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
	var stdout, stderr hosttest.Output
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"serve", "--plugin", probe, "--config", config, "--listen", "127.0.0.1:0", "--upstream", up.URL, "--workers", "2",
			"--cache", cache, "--route", "theroute", "--metadata", "cc.policy=pay", "--property", "xds.cluster_name=up", "--log-field", "outcome=wasm.app.outcome", "--log-field", "refusal=wasm.app.refusal"}, &stdout, &stderr)
	}()
	url := stderr.Find(t, `listening on (http://127\.0\.0\.1:[1-9]\d*), upstream http://[0-9.:]+, 2 workers`)[1]
	req, _ := http.NewRequest("POST", url+"/ok?x=1", strings.NewReader("body"))
	req.Header.Set("x-name", "A")
	req.Header.Set("x-do", "rh setprop app.outcome first; rh setprop app.key 0123456789abcdef; rh setprop app.refusal x=1; rh prop xds/route_name; rh prop xds/route_metadata/filter_metadata/cc/policy; rh prop xds/cluster_name")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(resp.Body); string(b) != "hello" {
		t.Errorf("body %q", b)
	}
	resp.Body.Close()
	stdout.Find(t, `(?m)^\d{4}-\d\d-\d\dT[0-9:.]+\S* POST /ok 200 \d+ms worker=[01] key=0123456789abcdef outcome=first refusal="x=1"$`)
	for _, want := range []string{`xds/route_name -> "theroute"`, `policy -> "pay"`, `cluster_name -> "up"`} {
		stderr.Find(t, regexp.QuoteMeta(want))
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
	stderr.Find(t, "stopping")
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
	stdout.Find(t, `(?m) GET /slow 200 \d+ms worker=[01] key=- outcome=- refusal=-$`)
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
		{[]string{"serve", "--plugin", "x", "--upstream", "http://h:1", "--log-field", "a=b"}, 2, `--log-field: want NAME=wasm.STATE, found "a=b"`},
		{[]string{"check", "--config", "/nonexistent"}, 1, "--config: open /nonexistent"},
		{[]string{"check", "conf.json"}, 2, `unexpected argument "conf.json": did you mean --config conf.json?`},
		{[]string{"check", "x.wasm"}, 2, "did you mean --plugin x.wasm?"},
		{[]string{"serve", "--plugin", "x", "http://h:1"}, 2, "did you mean --upstream http://h:1?"},
		{[]string{"serve", "--plugin", probe, "--upstream", "http://h:1", "--listen", taken, "--cache", cache}, 1, "--listen: another program has " + taken + " already: end that one, or name another port"},
		{[]string{"serve", "--plugin", probe, "--upstream", "http://h:1", "--admin", taken, "--cache", cache}, 1, "--admin: another program has " + taken + " already"},
	} {
		var stdout, stderr hosttest.Output
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
		var stdout, stderr hosttest.Output
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
	var stdout, stderr hosttest.Output
	got := run(ctx, []string{"serve", "--plugin", probe, "--upstream", "http://h:1", "--cache", ""}, &stdout, &stderr)
	if got != 0 || !strings.Contains(stderr.String(), "stopped before the filter had started") {
		t.Errorf("status %d:\n%s", got, stderr.String())
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"--help"}, {"serve", "--help"}, {"check", "-h"}} {
		var stdout, stderr hosttest.Output
		if got := run(context.Background(), args, &stdout, &stderr); got != 0 {
			t.Errorf("%q: status %d", args, got)
		}
		if !strings.Contains(stdout.String()+stderr.String(), "--config FILE") {
			t.Errorf("%q does not help: %s%s", args, stdout.String(), stderr.String())
		}
	}
}

// Without a reader of configurations only the filter itself can be asked.
func TestCheck(t *testing.T) {
	good := write(t, "good", "start register probe\n")
	var stdout, stderr hosttest.Output
	if got := run(context.Background(), []string{"check", "--config", good, "--plugin", probe, "--cache", cache}, &stdout, &stderr); got != 0 || !strings.Contains(stdout.String(), "good: ok") {
		t.Errorf("status %d: %s%s", got, stdout.String(), stderr.String())
	}
	without := Command{Name: "hostsim"}
	if got := without.Run(context.Background(), []string{"check", "--config", good}, &stdout, &stderr); got != 2 || !strings.Contains(stderr.String(), "check needs --plugin") {
		t.Errorf("without a reader: status %d: %s", got, stderr.String())
	}
	if got := without.Run(context.Background(), []string{"check", "--config", good, "--strict"}, &stdout, &stderr); got != 2 || !strings.Contains(stderr.String(), "not defined: -strict") {
		t.Errorf("without a reader: status %d: %s", got, stderr.String())
	}
	with := Command{Name: "x", Check: func(b []byte) ([]string, error) {
		return nil, errors.New("/limits/ttl: want a duration, found " + string(b))
	}}
	if got := with.Run(context.Background(), []string{"check", "--config", good}, &stdout, &stderr); got != 1 || !strings.Contains(stderr.String(), "/limits/ttl: want a duration, found start register") {
		t.Errorf("with a reader of its own: status %d: %s", got, stderr.String())
	}
}

// Warnings end a check only where it is strict, and then with a status of their own.
func TestCheckStrict(t *testing.T) {
	with := Command{Name: "x", Check: func(b []byte) ([]string, error) {
		if string(b) == "{}" {
			return []string{"nothing is guarded"}, nil
		}
		return nil, nil
	}}
	for _, c := range []struct {
		config, flag string
		status       int
		out, err     string
	}{
		{`{}`, "", 0, ": warning: nothing is guarded", ""},
		{`{}`, "--strict", 3, ": warning: nothing is guarded", "warnings, which --strict takes for mistakes"},
		{`{"good":1}`, "--strict", 0, ": ok\n", ""},
	} {
		args := []string{"check", "--config", write(t, "c.json", c.config)}
		if c.flag != "" {
			args = append(args, c.flag)
		}
		var stdout, stderr hosttest.Output
		got := with.Run(context.Background(), args, &stdout, &stderr)
		if got != c.status || !strings.Contains(stdout.String(), c.out) || !strings.Contains(stderr.String(), c.err) || got != 0 && strings.Contains(stdout.String(), ": ok") {
			t.Errorf("%s %s: status %d, want %d; printed\n%s%s", c.config, c.flag, got, c.status, stdout.String(), stderr.String())
		}
	}
}

// What a command knows of its filter: where it lies, the fields of its log, its version.
func TestACommandsOwn(t *testing.T) {
	own := Command{Name: "own", About: "own does it.", Plugin: func() (string, error) { return "", errors.New("it is not there") }, Version: func() string { return "v1" }}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"version"}, 0, "own v1\n"},
		{[]string{"help"}, 0, "own does it.\n\n  own serve --config FILE"},
		{[]string{"fly"}, 2, "own: usage: unknown command \"fly\"; there are serve, check and version"},
		{[]string{"serve"}, 2, "serve needs --upstream"},
		{[]string{"serve", "--upstream", "http://h:1"}, 1, "own: --plugin: it is not there"},
	} {
		var stdout, stderr hosttest.Output
		if got := own.Run(context.Background(), c.args, &stdout, &stderr); got != c.status || !strings.Contains(stdout.String()+stderr.String(), c.want) {
			t.Errorf("%q: status %d, want %d; printed\n%s%s\nwant in it: %s", c.args, got, c.status, stdout.String(), stderr.String(), c.want)
		}
	}
	var stderr hosttest.Output
	if got := (&Command{Name: "hostsim"}).Run(context.Background(), []string{"version"}, io.Discard, &stderr); got != 2 {
		t.Errorf("a command without a version: status %d", got)
	}
}

// The fields of the log: a command's own come first, those that are optional are left out where the filter says nothing. The query is no part
// of the line.
func TestAccessLog(t *testing.T) {
	c := Command{LogFields: []LogField{{Name: "a", State: "wasm.x.a"}, {Name: "b", State: "wasm.x.b", Optional: true}}}
	log := func(state map[string]string) string {
		var b strings.Builder
		accessLog(&b, c.logFields(pairs{{"c", "wasm.c"}}))(hostsim.Record{Method: "GET", Path: "/a?token=secret", Status: 200, Worker: 1, FilterState: state, Flags: "UC", Details: "late"})
		_, line, _ := strings.Cut(b.String(), " ")
		return line
	}
	if got, want := log(map[string]string{"x.a": "1", "x.b": "two words", "c": "3"}), "GET /a 200 0ms worker=1 a=1 b=\"two words\" c=3 details=late flags=UC\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := log(nil), "GET /a 200 0ms worker=1 a=- c=- details=late flags=UC\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
