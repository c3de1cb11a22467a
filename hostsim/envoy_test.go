package hostsim

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"
)

// TestScenariosOnEnvoy plays the scenarios on a real Envoy, the path of which is in ENVOY: what the files record is what Envoy does.
func TestScenariosOnEnvoy(t *testing.T) {
	path := os.Getenv("ENVOY")
	if path == "" {
		t.Skip("ENVOY names no Envoy")
	}
	runScenarios(t, func(t *testing.T, s *scenario) stage { return startEnvoy(t, path, s) }, false)
}

type envoyStage struct {
	listen string
	log    string
	up     *upstream
}

func (e *envoyStage) address() string                         { return e.listen }
func (e *envoyStage) upstream() *upstream                     { return e.up }
func (e *envoyStage) peek(t *testing.T, name string) []string { return e.read(t, name+" ") }

func (e *envoyStage) lines(t *testing.T, name string) []string {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got := e.read(t, name+" ")
		if streamEnded(got) || time.Now().After(deadline) {
			time.Sleep(piecePause / 2) // what follows the end in the same callback
			return e.read(t, name+" ")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (e *envoyStage) read(t *testing.T, prefix string) []string {
	b, err := os.ReadFile(e.log)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range strings.Split(string(b), "\n") {
		if _, text, ok := strings.Cut(l, "probe: "); ok {
			if rest, ok := strings.CutPrefix(text, prefix); ok {
				out = append(out, rest)
			}
		}
	}
	return out
}

func startEnvoy(t *testing.T, path string, s *scenario) stage {
	t.Helper()
	up := newUpstream(t)
	upstream := up.address
	if s.path == "/dead" {
		upstream = deadAddress(t)
	}
	dir := t.TempDir()
	e := &envoyStage{listen: deadAddress(t), log: filepath.Join(dir, "log"), up: up}
	var yaml bytes.Buffer
	err := envoyConfig.Execute(&yaml, map[string]any{
		"Listen": splitAddress(t, e.listen), "Up": splitAddress(t, upstream), "Dead": splitAddress(t, deadAddress(t)), "Wasm": probePath,
		"Plugin": fmt.Sprintf("%q", scenarioConfig), "Hold": s.options["hold"] != "no", "Trailers": s.options["trailers"] == "yes",
		"Timeout": scenarioTimeout, "Idle": scenarioIdle,
	})
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "envoy.yaml")
	if err := os.WriteFile(config, yaml.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(e.log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", config, "--use-dynamic-base-id", "--concurrency", "1", "-l", "warning", "--component-log-level", "wasm:warn")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		log.Close()
	})
	deadline := time.Now().Add(3 * patience)
	for {
		if c, err := net.Dial("tcp", e.listen); err == nil {
			c.Close()
			return e
		}
		if time.Now().After(deadline) {
			b, _ := os.ReadFile(e.log)
			t.Fatalf("Envoy does not listen:\n%s", b)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// splitAddress gives an address in the form that Envoy's configuration has.
func splitAddress(t *testing.T, address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{socket_address: {address: %s, port_value: %s}}", host, port)
}

var envoyConfig = template.Must(template.New("envoy").Parse(`
static_resources:
  listeners:
  - address: {{.Listen}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: x
          stream_idle_timeout: {{.Idle}}
          http_protocol_options: {enable_trailers: {{.Trailers}}}
          route_config:
            virtual_hosts:
            - name: vh
              domains: ["*"]
              routes:
              - match: {prefix: "/"}
                name: theroute
                metadata: {filter_metadata: {cc: {policy: pay}}}
                route: {cluster: up, timeout: {{.Timeout}}}
          http_filters:
          - name: wasm
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
              config:
                name: probe
                root_id: rootid
                allow_on_headers_stop_iteration: {{.Hold}}
                failure_policy: FAIL_RELOAD
                vm_config:
                  vm_id: vmid
                  runtime: envoy.wasm.runtime.v8
                  code: {local: {filename: {{.Wasm}}}}
                configuration: {"@type": type.googleapis.com/google.protobuf.StringValue, value: {{.Plugin}}}
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: up
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http_protocol_options: {enable_trailers: {{.Trailers}}}}
    load_assignment: {cluster_name: up, endpoints: [{lb_endpoints: [{endpoint: {address: {{.Up}}}}]}]}
  - name: dead
    connect_timeout: 1s
    load_assignment: {cluster_name: dead, endpoints: [{lb_endpoints: [{endpoint: {address: {{.Dead}}}}]}]}
`))
