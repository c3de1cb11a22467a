package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callonce/callonce/hostsim/hosttest"
	"github.com/callonce/callonce/plugin/internal/version"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is guarded, and how, is in the log of every request, and a fault may be for one tool alone.
func TestServe(t *testing.T) {
	probe := write(t, "probe.wasm", string(hosttest.Build(t, "../../../hostsim/testdata/probe", "-ldflags=-s -w")))
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	defer up.Close()
	ctx, stop := context.WithCancel(context.Background())
	var stdout, stderr hosttest.Output
	status := make(chan int, 1)
	go func() {
		faults := write(t, "faults.json", `[{"match":{"tool":"charge*"},"action":"reset_before"}]`)
		status <- command().Run(ctx, []string{"serve", "--plugin", probe, "--upstream", up.URL, "--cache", "", "--faults", faults}, &stdout, &stderr)
	}()
	url := stderr.Find(t, `listening on (http://127\.0\.0\.1:[1-9]\d*),`)[1]
	for _, c := range []struct{ do, body, want string }{
		{"rh setprop callonce.outcome first; rh setprop callonce.key_hash 0123456789abcdef; rh setprop callonce.mode observe; rh setprop callonce.tool charge; rh setprop callonce.refusal x=1",
			"body", `200 \d+ms worker=[01] outcome=first key=0123456789abcdef tool=charge refusal="x=1" mode=observe`},
		{"rh prop xds/cluster_name", "body", `200 \d+ms worker=[01] outcome=- key=-`},
		{"", `{"method":"tools/call","params":{"name":"refund"}}`, `200 \d+ms worker=[01] outcome=- key=-`},
		{"", `{"method":"tools/call","params":{"name":"charge_card"}}`, `503 \d+ms worker=[01] outcome=- key=- details=.* flags=UC`},
	} {
		req, _ := http.NewRequest("POST", url+fmt.Sprintf("/%d", len(stdout.String())), strings.NewReader(c.body))
		req.Header.Set("x-do", c.do)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body) // a client that leaves before the end is a call of another kind
		resp.Body.Close()
		stdout.Find(t, `(?m) POST `+req.URL.Path+` `+c.want+`$`)
	}
	stderr.Find(t, `cluster_name -> "upstream"`) // that a filter can call by itself
	stderr.Find(t, `fault /0 reset_before: POST /\d+ charge_card\n`)
	stop()
	if s := <-status; s != 0 {
		t.Errorf("exit status %d:\n%s", s, stderr.String())
	}
}

func TestToolOf(t *testing.T) {
	for body, want := range map[string]string{
		`{"method":"tools/call","params":{"name":"charge"}}`: "charge", `{"method":"tools/list","params":{"name":"charge"}}`: "",
		`{"method":"tools/call"}`: "", `no json`: "", ``: "",
	} {
		if got := toolOf([]byte(body)); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

// The filter's own reader judges, and warnings end a check only where it is strict, with a status of their own.
func TestCheck(t *testing.T) {
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
		{"start refuse because of it\n", "", 1, "", ":\n  configuration: "},
		{"# Envoy\nstatic_resources:\n", "", 1, "", "not the YAML around it"},
		{`{}`, "--strict --plugin x", 2, "", "--strict is for the built-in reader"},
	} {
		args := append([]string{"check", "--config", write(t, "c.json", c.config)}, strings.Fields(c.flag)...)
		var stdout, stderr hosttest.Output
		got := command().Run(context.Background(), args, &stdout, &stderr)
		if got != c.status || !strings.Contains(stdout.String(), c.out) || !strings.Contains(stderr.String(), c.err) || got != 0 && strings.Contains(stdout.String(), ": ok") {
			t.Errorf("%s %s: status %d, want %d; printed\n%s%s", c.config, c.flag, got, c.status, stdout.String(), stderr.String())
		}
	}
}

// The command as it is built: it names its version, and finds the filter that lies beside it, also through a link.
func TestTheBinary(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "link")
	binary := filepath.Join(dir, "callonce")
	if b, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if err := os.Symlink(binary, elsewhere); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(elsewhere, "version").CombinedOutput()
	if words := strings.Fields(string(out)); err != nil || len(words) < 3 || words[0] != "callonce" || !strings.HasSuffix(version.String(), words[len(words)-1]) {
		t.Errorf("version: %v: %q", err, out)
	}
	serve := func() string {
		out, err := exec.Command(elsewhere, "serve", "--upstream", "http://127.0.0.1:1", "--cache", "").CombinedOutput()
		if err == nil {
			t.Error("want no start")
		}
		return string(out)
	}
	if got := serve(); !strings.Contains(got, "--plugin: want the compiled filter") || !strings.Contains(got, filepath.Join(dir, "callonce.wasm")) {
		t.Errorf("without a filter: %s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "callonce.wasm"), []byte("no module"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serve(); !strings.Contains(got, filepath.Join(dir, "callonce.wasm")+": ") {
		t.Errorf("with one that is none: %s", got)
	}
}

// The doctor is a command of its own: without a guard it ends with status 1 and says so, and what it is given wrongly it names.
func TestDoctor(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "{}") }))
	defer up.Close()
	for _, c := range []struct {
		args     string
		status   int
		out, err string
	}{
		{"doctor --url " + up.URL + "/mcp", 1, "BAD  guard: none", "callonce: doctor: something must be mended"},
		{"doctor --url x", 1, "", "--url: want http://HOST/PATH"},
		{"doctor --help", 0, "", "-header"},
		{"doktor", 2, "", "there are serve, check, version, doctor and keys"},
		{"help", 0, "callonce doctor --url", ""},
	} {
		var stdout, stderr hosttest.Output
		got := command().Run(context.Background(), strings.Fields(c.args), &stdout, &stderr)
		if got != c.status || !strings.Contains(stdout.String(), c.out) || !strings.Contains(stderr.String(), c.err) {
			t.Errorf("%s: status %d, want %d; printed\n%s%s", c.args, got, c.status, stdout.String(), stderr.String())
		}
	}
}
