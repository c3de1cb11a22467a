package hostsim

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// tool finds a program that a test needs, or skips the test and says how to get it.
func tool(t *testing.T, name, variable, how string) string {
	t.Helper()
	if p := os.Getenv(variable); p != "" {
		return p
	}
	p, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s on the path, nor in %s: %s", name, variable, how)
	}
	return p
}

// foreign starts a module that is not the probe, and calls /ok and /denied.
func foreign(t *testing.T, wasm, config string) (ok, denied answer, r *rig) {
	t.Helper()
	code, err := os.ReadFile(wasm)
	if err != nil {
		t.Fatal(err)
	}
	r = newRig(t, func(c *Config, _ *ProxyOptions) { c.Wasm, c.PluginConfig = code, []byte(config) })
	ok = r.do("POST", "/ok", "A", "", "x")
	if ok.status != 200 || ok.err != nil {
		t.Fatalf("a request: %d, %v", ok.status, ok.err)
	}
	if denied = r.do("GET", "/denied", "B", "", ""); denied.status != 403 || !strings.EqualFold(denied.body, "no") {
		t.Errorf("a reply of the module's own: %d %q", denied.status, denied.body)
	}
	if n := len(r.up.requests("/denied")); n != 0 {
		t.Errorf("what the module answered reached the server %d times", n)
	}
	return ok, denied, r
}

// A filter in Rust, written with the crate proxy-wasm.
func TestRustModule(t *testing.T) {
	cargo := tool(t, "cargo", "CARGO", "install Rust, and its target with rustup target add wasm32-unknown-unknown")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/rust")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(cargo, "build", "--quiet", "--release", "--target", "wasm32-unknown-unknown")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		for _, missing := range []string{"target may not be installed", "can't find crate for `core`", "can't find crate for `std`", "failed to get `proxy-wasm`", "failed to download"} {
			if strings.Contains(string(out), missing) {
				t.Skipf("cargo lacks the target wasm32-unknown-unknown (rustup target add) or cannot fetch the crate proxy-wasm: %s", out)
			}
		}
		t.Fatalf("%v\n%s", err, out)
	}
	ok, denied, r := foreign(t, filepath.Join(dir, "target/wasm32-unknown-unknown/release/greeter.wasm"), "salve")
	if got := r.up.requests("/ok")[0].header.Get("x-greeting"); got != "salve" {
		t.Errorf("the server's x-greeting: %q", got)
	}
	if ok.body != "HELLO" || ok.header.Get("x-count") != "1" || denied.header.Get("x-by") != "rust" {
		t.Errorf("got body %q, headers %v and %v", ok.body, ok.header, denied.header)
	}
	if a := r.do("POST", "/ok", "C", "", "x"); a.header.Get("x-count") != "3" {
		t.Errorf("the third response (the module's own counts too): %v", a.header)
	}
}

// A filter in AssemblyScript, on the bare ABI.
func TestAssemblyScriptModule(t *testing.T) {
	asc := tool(t, "asc", "ASC", "npm install assemblyscript; its compiler is node_modules/.bin/asc")
	wasm := filepath.Join(t.TempDir(), "filter.wasm")
	cmd := exec.Command(asc, "testdata/assemblyscript/filter.ts", "--runtime", "stub", "--exportStart", "_initialize", "--use", "abort=", "-O", "-o", wasm)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ok, denied, r := foreign(t, wasm, "four")
	if ok.header.Get("x-by") != "assemblyscript" || denied.header.Get("x-by") != "assemblyscript" {
		t.Errorf("headers %v and %v", ok.header, denied.header)
	}
	if n := r.host.Metrics()["requests_total"]; n != 2 {
		t.Errorf("requests_total: %d", n)
	}
	if !hasPrefix(r.book.all("log "), "worker=0 info: configured with 4 bytes") {
		t.Errorf("lines: %q", r.book.all("log "))
	}
}

// sdkExample is one of the Go SDK's examples: how it is configured, and what of its README must be seen.
type sdkExample struct {
	dir, config string
	header      []string // of the request
	wants       func(a answer, r *rig) bool
}

func logs(text string) func(answer, *rig) bool {
	return func(_ answer, r *rig) bool {
		r.host.Tick()
		return slices.ContainsFunc(r.book.all("log "), func(l string) bool { return strings.Contains(l, text) })
	}
}

func status(code int) func(answer, *rig) bool {
	return func(a answer, _ *rig) bool { return a.status == code }
}

var sdkExamples = []sdkExample{
	{"helloworld", "", nil, logs("OnTick called")},
	{"http_headers", `{"header":"x-wasm-header","value":"demo-wasm"}`, nil, func(a answer, _ *rig) bool {
		return a.header.Get("x-wasm-header") == "demo-wasm" && a.header.Get("x-proxy-wasm-go-sdk-example") == "http_headers"
	}},
	{"http_body", "", []string{"buffer-operation", "prepend"}, func(a answer, r *rig) bool {
		got := r.up.requests("/ok")
		return len(got) == 1 && got[0].body == "[this is prepended body]pattern"
	}},
	{"http_body_chunk", "", nil, status(403)},
	{"http_auth_random", "", nil, logs("http call dispatched to httpbin")},
	{"http_routing", "secondary", nil, logs("value: ")},
	{"json_validation", `{"requiredKeys":["id"]}`, nil, status(403)},
	{"metrics", "", []string{"my-custom-header", "foo"}, func(_ answer, r *rig) bool {
		return r.host.Metrics()["custom_header_value_counts_value=foo_reporter=wasmgosdk"] == 1
	}},
	{"multiple_dispatches", "", nil, func(a answer, _ *rig) bool { return a.header.Get("total-dispatched") == "10" }},
	{"dispatch_call_on_tick", "", nil, logs("called")},
	{"foreign_call_on_tick", "", nil, logs("foreign function (compress)")},
	{"postpone_requests", "", nil, logs("resume request")},
	{"properties", "", nil, logs("no auth header for route")},
	{"shared_data", "", nil, logs("shared value: ")},
	{"shared_queue/receiver", "http_request_headers", nil, logs("registered as queueID")},
	{"shared_queue/sender", "http", nil, logs("error resolving queue id: ")}, // it has no receiver
	{"vm_plugin_configuration", "plug", nil, logs("plugin config: plug")},
	{"network", "", nil, logs("invalid context on proxy_on_request_headers")}, // a filter of connections: what the SDK says of a request
}

// The Go SDK's examples are modules of their own, which its zip on the module proxy leaves out: a checkout is needed.
func TestGoSDKExamples(t *testing.T) {
	root := os.Getenv("GO_SDK")
	if root == "" {
		t.Skip("GO_SDK names no checkout of proxy-wasm-go-sdk (its examples are not part of the module that go.mod requires)")
	}
	for _, e := range sdkExamples {
		t.Run(strings.ReplaceAll(e.dir, "/", "-"), func(t *testing.T) {
			wasm := filepath.Join(t.TempDir(), "example.wasm")
			cmd := exec.Command("go", "build", "-mod=mod", "-buildmode=c-shared", "-ldflags=-s -w", "-o", wasm, ".")
			cmd.Dir = filepath.Join(root, "examples", e.dir)
			cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOWORK=off")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			code, err := os.ReadFile(wasm)
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, func(c *Config, _ *ProxyOptions) {
				c.Wasm, c.PluginConfig, c.VMConfig = code, []byte(e.config), []byte("vm")
				c.HoldHeaders = false // as in the configurations that come with the examples
				for _, cluster := range []string{"httpbin", "web_service"} {
					c.Clusters[cluster] = c.Clusters["up"]
				}
			})
			method, body := "POST", "pattern"
			if e.dir == "http_auth_random" {
				// It sends the request's own headers to another server, with a content-length too, but never a body.
				method, body = "GET", ""
			}
			a := r.do(method, "/ok", "A", "", body, e.header...)
			if a.err != nil || a.status == 0 {
				t.Fatalf("no answer: %v", a.err)
			}
			seen := false
			for deadline := time.Now().Add(patience / 4); !seen && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
				seen = e.wants(a, r)
			}
			if !seen {
				t.Errorf("not what it should show: %d %q %v, metrics %v, lines\n%s", a.status, a.body, a.header, r.host.Metrics(), strings.Join(r.book.all(""), "\n"))
			}
			t.Log(fmt.Sprintf("%d %q", a.status, a.body))
		})
	}
}
