package doctor_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/callonce/callonce/doctor"
	"github.com/callonce/callonce/hostsim"
	"github.com/callonce/callonce/hostsim/hosttest"
)

// server answers a tools/call as servers do that have no such tool, and notes if ever another one was called.
type server struct {
	status int // 0 = 200
	asked  atomic.Int32
	harm   atomic.Bool
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.asked.Add(1)
	if !strings.Contains(string(body), `"name":"callonce_doctor_probe"`) {
		s.harm.Store(true)
	}
	w.Header().Set("Content-Type", "application/json")
	if s.status != 0 {
		w.WriteHeader(s.status)
	}
	io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown tool"}}`)
}

var (
	once   sync.Once
	plugin []byte
)

// guarded starts the filter in front of a server, and gives the URL.
func guarded(t *testing.T, s http.Handler, policy string) string {
	t.Helper()
	once.Do(func() { plugin = hosttest.Build(t, "../plugin") })
	return hosttest.Start(t, hostsim.Config{
		Wasm: plugin, Workers: 2, HoldHeaders: true, Log: func(int, hostsim.LogLevel, string) {}, PluginConfig: []byte(`{"policies":{"p":{"server":"s",` + policy + `}},"default":"p"}`),
	}, s).URL
}

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := doctor.Run(args, &out, io.Discard)
	return out.String(), err
}

// judge compares a report with the lines that it must, and with - those that it must not have.
func judge(t *testing.T, what, report string, err error, findings bool, lines ...string) {
	t.Helper()
	if errors.Is(err, doctor.ErrFindings) != findings || err != nil && !findings {
		t.Errorf("%s: want findings: %v, got %v", what, findings, err)
	}
	for _, line := range lines {
		if rest, not := strings.CutPrefix(line, "-"); not == strings.Contains(report, strings.TrimPrefix(line, "-")) {
			t.Errorf("%s: wanted: %v: %q in\n%s", what, !not, rest, report)
		}
	}
}

func TestGuarded(t *testing.T) {
	for policy, lines := range map[string][]string{
		`"anonymous":true`:                       {"ok   guard: stands here", "ok   identity: found", "ok   repeat: replayed", "ok   path: no other"},
		`"anonymous":true,"reply":"jsonrpc"`:     {"ok   guard: stands here", "ok   repeat: replayed"},
		`"anonymous":true,"preset":"sep3182"`:    {"ok   guard: stands here", "ok   repeat: replayed"},
		`"anonymous":true,"reply":"tool_result"`: {"ok   guard: stands here", "ok   repeat: replayed"},
	} {
		s := &server{}
		report, err := run(t, "--url", guarded(t, s, policy)+"/mcp")
		judge(t, policy, report, err, false, append(lines, "-BAD")...)
		if s.asked.Load() != 1 || s.harm.Load() {
			t.Errorf("%s: want the server asked once, for no tool of its own, got %d times", policy, s.asked.Load())
		}
	}
}

// The preset derived frees the keys of failed calls, and no server has the probe's tool: that it asks again is no fault.
func TestGuardedWhereErrorsFree(t *testing.T) {
	s := &server{}
	policy := `"anonymous":true,"preset":"derived"`
	report, err := run(t, "--url", guarded(t, s, policy)+"/mcp")
	judge(t, policy, report, err, false, "ok   guard: stands here", "repeat: asked again: the server answered the first with an error", "-BAD")
	if s.asked.Load() != 2 || s.harm.Load() {
		t.Errorf("want the server asked twice, for no tool of its own, got %d times", s.asked.Load())
	}
}

func TestIdentity(t *testing.T) {
	s := &server{}
	front := guarded(t, s, `"principal":["header:x-user"]`)
	report, err := run(t, "--url", front+"/mcp")
	judge(t, "no caller", report, err, true, "ok   guard: stands here", "BAD  identity: not found")
	report, err = run(t, "--url", front+"/mcp", "--header", "X-User: ada")
	judge(t, "a caller", report, err, false, "ok   identity: found", "ok   repeat: replayed")
}

// A server that refuses by itself frees the key: that is no finding.
func TestServerRefuses(t *testing.T) {
	report, err := run(t, "--url", guarded(t, &server{status: 404}, `"anonymous":true`)+"/mcp")
	judge(t, "404", report, err, false, "ok   guard: stands here", "asked again, as it should be")
	report, err = run(t, "--url", guarded(t, &server{status: 500}, `"anonymous":true`)+"/mcp")
	judge(t, "500", report, err, false, "not run again: idempotency_outcome_unknown")
}

func TestUnguarded(t *testing.T) {
	s := &server{}
	direct := httptest.NewServer(s)
	defer direct.Close()
	report, err := run(t, "--url", direct.URL+"/mcp")
	judge(t, "no filter", report, err, true, "BAD  guard: none", "-identity")
	for name, policy := range map[string]string{"observing": `"anonymous":true,"mode":"observe"`, "another tool only": `"anonymous":true,"tools":[{"match":"*","guard":"off"}]`} {
		report, err = run(t, "--url", guarded(t, s, policy)+"/mcp")
		judge(t, name, report, err, true, "BAD  guard: none")
	}
	if s.harm.Load() {
		t.Error("a tool of the server's own was called")
	}
	denied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "RBAC: access denied", http.StatusForbidden)
	}))
	defer denied.Close()
	report, err = run(t, "--url", denied.URL+"/mcp")
	judge(t, "denied", report, err, true, `something ahead answered 403 "RBAC: access denied"`)
}

// A proxy that guards one spelling of the path and hands the others on.
func TestLedAround(t *testing.T) {
	s := &server{}
	filter, err := url.Parse(guarded(t, s, `"anonymous":true`))
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() == "/mcp" {
			httputil.NewSingleHostReverseProxy(filter).ServeHTTP(w, r)
			return
		}
		if r.URL.EscapedPath() == "/MCP" {
			w.WriteHeader(404)
			return
		}
		s.ServeHTTP(w, r)
	}))
	defer front.Close()
	report, err := run(t, "--url", front.URL+"/mcp")
	judge(t, "around", report, err, true, "ok   guard: stands here", "BAD  path: //mcp leads around", "BAD  path: /%6dcp leads around", "BAD  path: /mcp;a=b leads around", "-/MCP leads")
}

func TestAdmin(t *testing.T) {
	front := guarded(t, &server{}, `"anonymous":true`) + "/mcp"
	for what, c := range map[string]struct {
		filter, stats string
		findings      bool
		lines         []string
	}{
		"whole": {`"allow_on_headers_stop_iteration":true,"failure_policy":"FAIL_RELOAD",`, "", false,
			[]string{`vm_id "callonce", module oci://r/c:1 abc`, "headers are buffered", "reloads", `namespace "n"; policy of routes that nothing names: p; by name: map[other:off]`, "-BAD"}},
		"build": {`"allow_on_headers_stop_iteration":true,"failure_policy":"FAIL_RELOAD",`, "wasmcustom.namespace=.=n;.;version=.=v1.2.3;.;revision=.=0123456789ab;.;callonce_build_info: 1\n", false,
			[]string{"version: runs v1.2.3 0123456789ab", "-BAD"}},
		"plain": {``, "wasmcustom.callonce_headers_not_held_total: 3\n", true, []string{"headers are not buffered", "stays so until", "BAD  headers: not buffered"}},
		"open":  {`"fail_open":true,`, "", true, []string{"BAD  filter callonce: fails open"}},
	} {
		admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/stats" {
				if strings.Contains(c.stats, r.URL.Query().Get("filter")) {
					io.WriteString(w, c.stats)
				}
				return
			}
			fmt.Fprintf(w, `{"configs":[{"x":{"typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm","config":{"name":"callonce",%s
				"vm_config":{"vm_id":"callonce","code":{"remote":{"http_uri":{"uri":"oci://r/c:1"},"sha256":"abc"}}},
				"configuration":{"@type":"type.googleapis.com/google.protobuf.StringValue","value":"{\"namespace\":\"n\",\"policies\":{\"p\":{\"anonymous\":true,\"strip\":true}},\"routes\":{\"other\":\"off\"},\"default\":\"p\"}"}}}}}]}`, c.filter)
		}))
		report, err := run(t, "--url", front, "--admin", admin.URL)
		judge(t, what, report, err, c.findings, c.lines...)
		admin.Close()
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"--url", "mcp"}, {"--url", "http://127.0.0.1:1/mcp"}, {"--url", "http://x/", "--header", "x"}} {
		if _, err := run(t, args...); err == nil || errors.Is(err, doctor.ErrFindings) {
			t.Errorf("%q: got %v", args, err)
		}
	}
}
