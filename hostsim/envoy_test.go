package hostsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
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
	version := envoyVersion(t, path)
	t.Logf("Envoy %s", version)
	runScenarios(t, func(t *testing.T, s *scenario) stage { return startEnvoy(t, path, s) }, version)
}

// envoyVersion asks a binary for its version, such as "1.40.0".
func envoyVersion(t *testing.T, path string) string {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", path, err)
	}
	m := regexp.MustCompile(`/(\d+\.\d+\.\d+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("%s --version: no version in %q", path, out)
	}
	return string(m[1])
}

type envoyStage struct {
	listen, admin string
	log           string
	up            *testServer
	listener      string         // the file that Envoy watches for its listener
	values        map[string]any // of its template
}

func (e *envoyStage) address() string                         { return e.listen }
func (e *envoyStage) upstream() *testServer                   { return e.up }
func (e *envoyStage) peek(t *testing.T, name string) []string { return e.read(t, name+" ") }

func (e *envoyStage) peekRaw(t *testing.T, prefix string) []string { return e.read(t, prefix) }

// configure replaces the listener by one that differs only in the plugin's configuration.
func (e *envoyStage) configure(t *testing.T, config string) {
	t.Helper()
	before := e.updates(t)
	e.values["Plugin"] = fmt.Sprintf("%q", config)
	e.writeListener(t)
	for deadline := time.Now().Add(3 * patience); e.updates(t) == before; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("Envoy does not take up its new listener")
		}
	}
	time.Sleep(piecePause) // Envoy does not tell when its workers have it
}

var updates = regexp.MustCompile(`(?m)^listener_manager\.(?:lds\.update_rejected|listener_create_failure|listener_in_place_updated): (\d+)$`)

// updates counts the listeners that Envoy has taken or refused.
func (e *envoyStage) updates(t *testing.T) int {
	t.Helper()
	resp, err := http.Get("http://" + e.admin + "/stats?filter=listener_manager")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, m := range updates.FindAllSubmatch(b, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		total += n
	}
	return total
}

// writeListener puts the file in place in one step, which is what Envoy watches for.
func (e *envoyStage) writeListener(t *testing.T) {
	t.Helper()
	writeTemplate(t, e.listener+".new", listenerConfig, e.values)
	if err := os.Rename(e.listener+".new", e.listener); err != nil {
		t.Fatal(err)
	}
}

func writeTemplate(t *testing.T, file string, tmpl *template.Template, values map[string]any) {
	t.Helper()
	var b bytes.Buffer
	if err := tmpl.Execute(&b, values); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

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
	if s.acts[0].options["upstream"] == "http2" {
		upstream = newHTTP2Upstream(t)
	}
	if s.acts[0].path == "/dead" {
		upstream = deadAddress(t)
	}
	dir := t.TempDir()
	e := &envoyStage{listen: freeAddress(t), admin: freeAddress(t), log: filepath.Join(dir, "log"), up: up, listener: filepath.Join(dir, "listener.yaml")}
	options := s.acts[0].options
	e.values = map[string]any{
		"Listen": splitAddress(t, e.listen), "Admin": splitAddress(t, e.admin), "Up": splitAddress(t, upstream), "Dead": splitAddress(t, deadAddress(t)),
		"Grpc": splitAddress(t, newGrpcUpstream(t)),
		"Wasm": probePath, "Listener": e.listener,
		"Plugin": fmt.Sprintf("%q", scenarioConfig), "Hold": options["hold"] != "no", "Trailers": options["trailers"] == "yes", "HTTP2": options["upstream"] == "http2",
		"Metadata": metadataValues(t), "Timeout": scenarioTimeout, "Idle": scenarioIdle, "Headers": scenarioHeaders,
	}
	e.writeListener(t)
	config := filepath.Join(dir, "envoy.yaml")
	writeTemplate(t, config, envoyConfig, e.values)
	log, err := os.Create(e.log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", config, "--use-dynamic-base-id", "--concurrency", "1", "--drain-time-s", "1", "-l", "warning", "--component-log-level", "wasm:warn")
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

// metadataValues gives each filter's metadata as JSON, which YAML takes too.
func metadataValues(t *testing.T) map[string]string {
	out := map[string]string{}
	for name, v := range scenarioMetadata {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(b)
	}
	return out
}

// splitAddress gives an address in the form that Envoy's configuration has.
func splitAddress(t *testing.T, address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{socket_address: {address: %s, port_value: %s}}", host, port)
}

var listenerConfig = template.Must(template.New("listener").Parse(`resources:
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: listener
  address: {{.Listen}}
  filter_chains:
  - filters:
    - name: hcm
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: x
        stream_idle_timeout: {{.Idle}}
        request_headers_timeout: {{.Headers}}
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
        - name: envoy.filters.http.set_metadata
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config
            metadata:
{{- range $name, $value := .Metadata}}
            - {metadata_namespace: {{$name}}, value: {{$value}}}
{{- end}}
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
`))

var envoyConfig = template.Must(template.New("envoy").Parse(`
node: {id: scenarios, cluster: scenarios}
admin: {address: {{.Admin}}}
dynamic_resources:
  lds_config: {resource_api_version: V3, path_config_source: {path: {{.Listener}}}}
static_resources:
  clusters:
  - name: up
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{if .HTTP2}}{http2_protocol_options: {}}{{else}}{http_protocol_options: {enable_trailers: {{.Trailers}}}}{{end}}
    load_assignment: {cluster_name: up, endpoints: [{lb_endpoints: [{endpoint: {address: {{.Up}}}}]}]}
  - name: dead
    connect_timeout: 1s
    load_assignment: {cluster_name: dead, endpoints: [{lb_endpoints: [{endpoint: {address: {{.Dead}}}}]}]}
  - name: grpc
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: grpc, endpoints: [{lb_endpoints: [{endpoint: {address: {{.Grpc}}}}]}]}
  - name: deadgrpc
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: deadgrpc, endpoints: [{lb_endpoints: [{endpoint: {address: {{.Dead}}}}]}]}
`))
