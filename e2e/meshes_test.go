package e2e_test

import (
	"maps"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/meshes"
	"github.com/callonce/callonce/e2e/spellings"
	"github.com/callonce/callonce/plugin/conformance"
)

// A mesh is a listener as a control plane makes it of the manifests below envoy/, without a control plane.
type mesh struct {
	name  string
	holds bool // the filter's headers are held
	shape func(*testing.T, *envoytest.Tree)
}

var listeners = []mesh{
	{"istio-gateway", true, sentBy("istio-gateway")},
	{"istio-sidecar", true, sentBy("istio-sidecar")},
	{"istio-wasmplugin", false, sentBy("istio-wasmplugin")},
	{"envoy-gateway", true, sentBy("envoy-gateway")},
}

// sentBy puts what a control plane sent for the manifests in the place of envoy.yaml's connection manager. make mesh records it
// (testdata/meshes) and compares it.
func sentBy(name string) func(*testing.T, *envoytest.Tree) {
	return func(t *testing.T, e *envoytest.Tree) {
		t.Helper()
		if err := meshes.Put(name, e); err != nil {
			t.Fatal(err)
		}
	}
}

// istioListener makes of envoy.yaml's listener one of istiod's, with the filter where a WasmPlugin of phase STATS stands.
func istioListener(e *envoytest.Tree, gateway bool) {
	delete(e.Object("static_resources", "listeners", 0), "per_connection_buffer_limit_bytes")
	m := e.Object(envoytest.Manager...)
	for _, member := range []string{"merge_slashes", "request_headers_timeout", "request_timeout", "local_reply_config"} {
		delete(m, member)
	}
	m["path_with_escaped_slashes_action"] = "KEEP_UNCHANGED"
	m["http_protocol_options"] = map[string]any{}
	m["server_name"] = "istio-envoy"
	m["use_remote_address"] = gateway
	m["proxy_100_continue"] = true
	m["forward_client_cert_details"] = map[bool]string{true: "SANITIZE_SET", false: "APPEND_FORWARD"}[gateway]
	m["set_current_client_cert_details"] = map[string]any{"subject": true, "dns": true, "uri": true}
	m["upgrade_configs"] = []any{map[string]any{"upgrade_type": "websocket"}}
	cors := e.Object(envoytest.Filters.To(envoytest.Named("envoy.filters.http.cors"))...)
	e.Set([]any{
		e.At(envoytest.Filters.To(envoytest.Named("callonce"))...),
		typed("envoy.filters.http.grpc_stats", "envoy.extensions.filters.http.grpc_stats.v3.FilterConfig", map[string]any{"emit_filter_state": true}),
		typed("envoy.filters.http.fault", "envoy.extensions.filters.http.fault.v3.HTTPFault", nil),
		cors,
		e.At(envoytest.Filters.To(envoytest.Named("envoy.filters.http.router"))...),
	}, envoytest.Filters...)
	e.Set(false, envoytest.Plugin.To("allow_on_headers_stop_iteration")...)
	delete(e.Object(envoytest.Plugin.To("vm_config")...), "vm_id")
}

func typed(name, message string, members map[string]any) map[string]any {
	config := map[string]any{"@type": "type.googleapis.com/" + message}
	maps.Copy(config, members)
	return map[string]any{"name": name, "typed_config": config}
}

// gatewayListener makes of envoy.yaml's listener one of Envoy Gateway's: 32 KiB are buffered, and the filter is off but
// where a route puts it on.
func gatewayListener(e *envoytest.Tree) {
	e.Set(32768, "static_resources", "listeners", 0, "per_connection_buffer_limit_bytes")
	e.Set(32768, envoytest.Clusters.To(0, "per_connection_buffer_limit_bytes")...)
	m := e.Object(envoytest.Manager...)
	for _, member := range []string{"request_headers_timeout", "request_timeout", "local_reply_config"} {
		delete(m, member)
	}
	m["http_protocol_options"] = map[string]any{}
	m["use_remote_address"] = true
	m["server_header_transformation"] = "PASS_THROUGH"
	filter := e.Object(envoytest.Filters.To(envoytest.Named("callonce"))...)
	filter["disabled"] = true
}

func meshRoute(name any, match map[string]any, timeout any) map[string]any {
	action := map[string]any{"cluster": "mcp_server", "timeout": "0s"}
	if timeout != nil {
		action["timeout"] = timeout
	}
	return map[string]any{"name": name, "match": match, "route": action}
}

func putOn(route map[string]any) {
	route["typed_per_filter_config"] = map[string]any{"callonce": map[string]any{
		"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": map[string]any{},
	}}
}

// meshFront is an Envoy with a mesh's listener, as the cases want it.
type meshFront struct {
	front
	mesh
}

func (f meshFront) Name() string { return f.name }

func (f meshFront) Start(t testing.TB, s conformance.Setup) conformance.Proxy {
	t.Helper()
	switch {
	case s.Callers:
		t.Skip("callers are verified by another file's listener")
	case s.NoHoldHeaders && f.holds:
		t.Skip("the manifest holds headers")
	}
	opts := f.options(t, s)
	opts.NoHoldHeaders = !f.holds
	base := opts.Edit
	opts.Edit = func(e *envoytest.Tree) {
		retries := e.Object(envoytest.Host...)["retry_policy"]
		f.shape(t.(*testing.T), e)
		e.Object(envoytest.Host...)["retry_policy"] = retries
		base(e)
		if f.name == "envoy-gateway" { // the cases' own routes are guarded too
			routes, _ := e.At(envoytest.Host.To("routes")...).([]any)
			for _, r := range routes {
				if r.(map[string]any)["name"] != "other" {
					putOn(r.(map[string]any))
				}
			}
		}
		if s.IdleTimeout > 0 {
			e.Set(s.IdleTimeout.String(), envoytest.Manager.To("stream_idle_timeout")...)
		}
		// The cases' configurations know no route "other", and nothing of Istio's names.
		if !f.holds {
			e.Set(false, envoytest.Plugin.To("allow_on_headers_stop_iteration")...)
		}
	}
	e, err := envoytest.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		if t.Failed() {
			t.Logf("envoy logged:\n%s", e.Logs())
		}
	})
	return proxy{Envoy: e}
}

// The field's cases, on the listeners of meshes as the manifests leave them. They take long, so only where they are asked for:
// CALLONCE_MESH_CASES=plugin takes the one whose headers are not buffered, which differs most from envoy.yaml's, and
// CALLONCE_MESH_CASES=all each. TestMeshPaths runs always.
func TestMeshCases(t *testing.T) {
	wanted := os.Getenv("CALLONCE_MESH_CASES")
	if wanted == "" {
		t.Skip("CALLONCE_MESH_CASES is not set: plugin, or all")
	}
	for _, m := range listeners {
		if m.holds && wanted != "all" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			conformance.Run(t, meshFront{mesh: m}, func(c conformance.Case) bool { return c.Envoy && !cannot[m.name][c.Name] })
		})
	}
}

// cannot are the cases that a mesh's listener cannot show, by the mesh.
var cannot = map[string]map[string]bool{}

const meshConfig = `{"namespace":"demo","policies":{"payments":{"server":"payments","anonymous":true,"strip":true,
	"tools":[{"match":"charge","guard":"optional"},{"match":"refund","guard":"required"}]}},"routes":{"other":"off"},"default":"payments"}`

// No spelling of the path leads a call of a required tool around the filter, and what is not on the path is left alone.
func TestMeshPaths(t *testing.T) {
	for _, m := range listeners {
		t.Run(m.name, func(t *testing.T) {
			server := startArrivals(t, httptest.NewServer)
			e := startEnvoy(t, envoytest.Options{
				Plugin: must(t, buildPlugin), Config: meshConfig, Upstream: server.URL, NoHoldHeaders: !m.holds,
				Edit: func(e *envoytest.Tree) { m.shape(t, e) },
			})
			for _, path := range spellings.MCP {
				status, body := raw(t, e.URL(), "POST", path, "application/json", mustHaveKey)
				switch {
				case strings.Contains(body, `"idempotency_key_required"`), status == 307: // a redirect leads to the usual spelling
				case status == 400 && len(body) < 100: // Envoy itself takes no such path
				default:
					t.Errorf("%s: want idempotency_key_required, got %d %s", path, status, body)
				}
				// Without held headers the server sees those of a call that is then refused; its body never comes.
				if got := server.take(); m.holds && len(got) > 0 {
					t.Errorf("%s: an unguarded call arrived at %q", path, got)
				}
			}
			if m.name == "istio-sidecar" {
				return // one route for all
			}
			if status, body := raw(t, e.URL(), "POST", "/oauth/token", "application/x-www-form-urlencoded", "grant_type=x"); status != 200 {
				t.Errorf("a form on another path: got %d %s", status, body)
			}
		})
	}
}

// What the manifests close is open in the meshes' own listeners: the table in docs/istio.md and docs/envoy-gateway.md.
func TestMeshPathsUnclosed(t *testing.T) {
	plainPrefix := func(match map[string]any) []any {
		guarded := meshRoute("mcp", match, nil)
		putOn(guarded)
		return []any{guarded, meshRoute("other", map[string]any{"prefix": "/"}, nil)}
	}
	for name, c := range map[string]struct {
		shape func(*envoytest.Tree)
		open  []string
	}{
		"istio": {func(e *envoytest.Tree) {
			istioListener(e, true)
			e.Set(plainPrefix(map[string]any{"prefix": "/mcp"}), envoytest.Host.To("routes")...)
		}, []string{"/MCP", "/%2fmcp", "//mcp", "/x%2f..%2fmcp", "/;/mcp"}},
		"envoy-gateway": {func(e *envoytest.Tree) {
			gatewayListener(e)
			e.Set(plainPrefix(map[string]any{"path_separated_prefix": "/mcp"}), envoytest.Host.To("routes")...)
		}, []string{"/MCP", "/mcp;a=b", "/;/mcp"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := startArrivals(t, httptest.NewServer)
			e := startEnvoy(t, envoytest.Options{
				Plugin: must(t, buildPlugin), Config: meshConfig, Upstream: server.URL,
				Edit: func(e *envoytest.Tree) {
					c.shape(e)
					e.Set(true, envoytest.Plugin.To("allow_on_headers_stop_iteration")...)
				},
			})
			for _, path := range append([]string{"/mcp"}, c.open...) {
				status, _ := raw(t, e.URL(), "POST", path, "application/json", mustHaveKey)
				if arrived := len(server.take()) > 0; arrived != (path != "/mcp") {
					t.Errorf("%s: want it to lead around: %v, got %d", path, path != "/mcp", status)
				}
			}
		})
	}
}

// A call longer than 32 KiB gets a bare 413 in Envoy Gateway's own listener, and its answer in the one that the manifests make.
func TestGatewayBuffer(t *testing.T) {
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"text":"` + strings.Repeat("x", 900_000) + `"}}}`
	for _, shipped := range []bool{true, false} {
		server := startArrivals(t, httptest.NewServer)
		e := startEnvoy(t, envoytest.Options{
			Plugin: must(t, buildPlugin), Config: meshConfig, Upstream: server.URL,
			Edit: func(e *envoytest.Tree) {
				listeners[3].shape(t, e)
				if !shipped {
					e.Set(32768, "static_resources", "listeners", 0, "per_connection_buffer_limit_bytes")
				}
			},
		})
		resp, body := send(t, "POST", e.URL(), call, "Idempotency-Key", "k")
		want := map[bool]int{true: 200, false: 413}[shipped]
		if resp.StatusCode != want {
			t.Errorf("shipped %v: want %d, got %d %.200s", shipped, want, resp.StatusCode, body)
		}
	}
}
