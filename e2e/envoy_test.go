package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/callonce/callonce/e2e/callers"
	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/tools"
)

const chargeBody = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"customer":"alice","amount_cents":1200}}}`

// post sends a charge with the headers given as name, value, name, value, ….
func post(t *testing.T, url string, headers ...string) (*http.Response, string) {
	t.Helper()
	return send(t, "POST", url, chargeBody, headers...)
}

func send(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	return sendBy(t, http.DefaultTransport, method, url, body, headers...)
}

func sendBy(t *testing.T, transport http.RoundTripper, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	// Go's own transport sends a request with an Idempotency-Key again when the
	// connection breaks; here only the proxy may.
	req.GetBody = nil
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp, whole(t, resp)
}

// whole reads a response to its end.
func whole(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The configurations are right as people find them: Envoy takes them, from the
// project's root, and has nothing to remark; nor has the oldest that is supported.
func TestConfigurationAsItStands(t *testing.T) {
	root := must(t, tools.Root)
	// A root of its own, whose dist/ holds what this test built.
	top := t.TempDir()
	if err := os.Mkdir(filepath.Join(top, "dist"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(must(t, buildPlugin), filepath.Join(top, "dist", "callonce.wasm")); err != nil {
		t.Fatal(err)
	}
	if _, err := callers.New(top); err != nil {
		t.Fatal(err)
	}
	// dynamic/bootstrap.yaml names files beside it.
	if err := os.Symlink(filepath.Join(root, "envoy"), filepath.Join(top, "envoy")); err != nil {
		t.Fatal(err)
	}
	for name, envoy := range map[string]func() (string, error){"newest": tools.Envoy, "oldest": tools.OldestEnvoy} {
		binary := must(t, envoy)
		for _, file := range []string{"envoy.yaml", "mtls-jwt.yaml", "detach.yaml", "replicas.yaml", "dynamic/bootstrap.yaml"} {
			t.Run(name+" "+file, func(t *testing.T) {
				cmd := exec.CommandContext(t.Context(), binary, "--mode", "validate", "-c", filepath.Join(root, "envoy", file))
				cmd.Dir = top
				log, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%v: %v", cmd.Args, err)
				}
				for line := range strings.Lines(string(log)) {
					for _, bad := range []string{"[warning]", "[error]", "[critical]", "eprecated"} {
						if strings.Contains(line, bad) {
							t.Errorf("want no remarks, got %s", line)
						}
					}
				}
			})
		}
	}
}

// Nor is anything remarked when Envoy serves with them.
func TestStartsWithoutARemark(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true})
	for name, envoy := range map[string]func() (string, error){"newest": tools.Envoy, "oldest": tools.OldestEnvoy} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("ENVOY", must(t, envoy))
			opts := envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL()}
			for file, e := range map[string]*envoytest.Envoy{"envoy.yaml": startEnvoy(t, opts), "mtls-jwt.yaml": startVerifier(t, opts).Envoy} {
				for line := range strings.Lines(e.Logs()) {
					for _, bad := range []string{"[warning]", "[error]", "[critical]", "eprecated"} {
						if strings.Contains(line, bad) {
							t.Errorf("%s: want no remarks, got %s", file, line)
						}
					}
				}
			}
		})
	}
}

// The demo under hostsim and the one on Envoy are the same demo.
func TestConfigurationIsTheDemos(t *testing.T) {
	root, err := tools.Root()
	if err != nil {
		t.Fatal(err)
	}
	var demo, envoy any
	text, err := os.ReadFile(filepath.Join(root, "e2e", "testdata", "demo.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &demo); err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile(filepath.Join(root, "envoy", "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(pluginConfig(tree)), &envoy); err != nil {
		t.Fatalf("the filter's configuration in envoy.yaml: %v", err)
	}
	if !reflect.DeepEqual(demo, envoy) {
		t.Errorf("want the same, got in testdata/demo.json\n%v\nin envoy.yaml\n%v", demo, envoy)
	}
}

// pluginConfig returns the value beside the StringValue type, wherever it stands.
func pluginConfig(node any) string {
	switch node := node.(type) {
	case map[string]any:
		if node["@type"] == "type.googleapis.com/google.protobuf.StringValue" {
			return fmt.Sprint(node["value"])
		}
		for _, child := range node {
			if found := pluginConfig(child); found != "" {
				return found
			}
		}
	case []any:
		for _, child := range node {
			if found := pluginConfig(child); found != "" {
				return found
			}
		}
	}
	return ""
}

func TestRefusedConfiguration(t *testing.T) {
	e, err := envoytest.Start(envoytest.Options{
		Plugin: must(t, buildPlugin), Upstream: "http://127.0.0.1:1",
		Config: `{"policies":{"p":{"anonymous":"yes","tools":[{"match":"a","guard":"sometimes"}]}},"default":"q"}`,
	})
	if err == nil {
		e.Close()
		t.Fatal("want Envoy not to start, it did")
	}
	if !errors.Is(err, envoytest.ErrRefused) {
		t.Fatal(err)
	}
	for _, pointer := range []string{"/policies/p/anonymous", "/policies/p/tools/0/guard", "/default"} {
		if !strings.Contains(err.Error(), pointer+": ") {
			t.Errorf("want the log to name %s, got:\n%v", pointer, err)
		}
	}
}

// The mesh's own retries are off for a guarded call, and for no other.
func TestMeshRetries(t *testing.T) {
	var runs atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			runs.Add(1)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		name    string
		noHold  bool
		headers []string
		want    int32
	}{
		{"guarded", false, []string{"Idempotency-Key", "k1"}, 1},
		{"guarded, headers not held", true, []string{"Idempotency-Key", "k1"}, 1},
		{"not guarded", false, nil, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			runs.Store(0)
			e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL, Retries: 2, NoHoldHeaders: c.noHold})
			resp, body := post(t, e.URL(), c.headers...)
			if resp.StatusCode != http.StatusServiceUnavailable || runs.Load() != c.want {
				t.Errorf("want the server's 503 after %d runs, got %d %s after %d", c.want, resp.StatusCode, body, runs.Load())
			}
		})
	}
}

// What Istio and Envoy Gateway allow: headers go ahead of the body that is judged.
func TestHeadersNotHeld(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true})
	e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL(), NoHoldHeaders: true})
	for i, want := range []string{"", "true"} {
		resp, body := post(t, e.URL(), "Idempotency-Key", "k1")
		if resp.StatusCode != 200 || resp.Header.Get("Idempotency-Replayed") != want || !strings.Contains(body, `"ch_1"`) {
			t.Errorf("call %d: want 200, replayed %q, ch_1; got %d, %q: %s", i+1, want, resp.StatusCode, resp.Header.Get("Idempotency-Replayed"), body)
		}
	}
	if resp, body := post(t, e.URL()); resp.StatusCode != 200 || server.Book.Count() != 2 {
		t.Errorf("a call without a key: want 200 and a second charge, got %d %s and %d", resp.StatusCode, body, server.Book.Count())
	}
	if n, err := e.Counter("callonce_headers_not_held_total", nil); err != nil || n != 3 {
		t.Errorf("want 3 requests counted whose headers were not held, got %d, %v", n, err)
	}
	if n := strings.Count(e.Logs(), "allow_on_headers_stop_iteration: true"); n != 1 {
		t.Errorf("want the log to say once what to set, got it %d times", n)
	}
}

// Pages in browsers may send the key, and read what the filter answers.
func TestBrowser(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true})
	e := startEnvoy(t, envoytest.Options{
		Plugin: must(t, buildPlugin), Upstream: server.URL(), Workers: 1,
		Config: `{"policies":{"p":{"server":"s","anonymous":true,"reply":"http"}},"default":"p"}`,
	})
	const origin = "http://localhost:3000"

	resp, _ := send(t, "OPTIONS", e.URL(), "", "Origin", origin, "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "content-type, idempotency-key")
	if resp.StatusCode != 200 || resp.Header.Get("Access-Control-Allow-Origin") != origin ||
		!strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "idempotency-key") {
		t.Errorf("preflight: want 200 with the origin and the key allowed, got %d %v", resp.StatusCode, resp.Header)
	}
	for _, call := range []struct {
		what   string
		key    string
		status int
	}{
		{"a first answer", "k1", 200}, {"a replay", "k1", 200}, {"a refusal", strings.Repeat("k", 256), 400},
	} {
		resp, body := post(t, e.URL(), "Origin", origin, "Idempotency-Key", call.key)
		exposed := resp.Header.Get("Access-Control-Expose-Headers")
		if resp.StatusCode != call.status || resp.Header.Get("Access-Control-Allow-Origin") != origin ||
			!strings.Contains(exposed, "idempotency-replayed") || !strings.Contains(exposed, "retry-after") {
			t.Errorf("%s: want %d with the origin and the headers exposed, got %d %v: %s", call.what, call.status, resp.StatusCode, resp.Header, body)
		}
	}
	resp, _ = post(t, e.URL(), "Origin", "https://elsewhere.example", "Idempotency-Key", "k1")
	if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("another origin: want no permission, got %q", got)
	}
}
