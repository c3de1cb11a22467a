package manifests_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	wasmfilter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/rbac/principals/mtls_authenticated/v3"
	wasm "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	egv1a1 "github.com/envoyproxy/gateway/api/v1alpha1"

	"github.com/callonce/callonce/plugin/config"
)

// envoyTypes gives for what an EnvoyFilter patches the message of Envoy's that it is.
var envoyTypes = map[networking.EnvoyFilter_ApplyTo]func() proto.Message{
	networking.EnvoyFilter_EXTENSION_CONFIG: func() proto.Message { return &core.TypedExtensionConfig{} },
	networking.EnvoyFilter_HTTP_FILTER:      func() proto.Message { return &hcm.HttpFilter{} },
	networking.EnvoyFilter_NETWORK_FILTER:   func() proto.Message { return &listener.Filter{} },
	networking.EnvoyFilter_HTTP_ROUTE:       func() proto.Message { return &route.Route{} },
}

// plugin is a filter as Envoy gets it, and where it comes from.
type plugin struct {
	resource
	config        string
	holds, reload bool
}

// plugins are the filters of all manifests. On the way every patch is read as Envoy would: istiod and Envoy Gateway take
// any text for one, and what Envoy cannot read it refuses together with the whole listener.
func plugins(t *testing.T) (all []plugin) {
	t.Helper()
	for _, r := range built(t) {
		switch r.Kind {
		case "EnvoyFilter":
			m, err := istioSpec(r)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range m.(*networking.EnvoyFilter).ConfigPatches {
				text, err := p.Patch.Value.MarshalJSON()
				if err != nil || envoyTypes[p.ApplyTo] == nil {
					t.Fatalf("%s: patch %d of %v: %v", r.From, i, p.ApplyTo, err)
				}
				value := envoyTypes[p.ApplyTo]()
				if err := protojson.Unmarshal(text, value); err != nil {
					t.Errorf("%s: patch %d: %v", r.From, i, err)
					continue
				}
				if extension, ok := value.(*core.TypedExtensionConfig); ok {
					var filter wasmfilter.Wasm
					if err := extension.TypedConfig.UnmarshalTo(&filter); err != nil {
						t.Fatalf("%s: %v", r.From, err)
					}
					// As pilot-agent hands it on: the module is a file by then.
					filter.Config.GetVmConfig().Code = &core.AsyncDataSource{Specifier: &core.AsyncDataSource_Local{Local: &core.DataSource{
						Specifier: &core.DataSource_Filename{Filename: "plugin.wasm"}}}}
					if err := filter.ValidateAll(); err != nil {
						t.Errorf("%s: %v", r.From, err)
					}
					var text wrapperspb.StringValue
					if err := filter.Config.Configuration.UnmarshalTo(&text); err != nil {
						t.Errorf("%s: %v", r.From, err)
					}
					all = append(all, plugin{r, text.Value, filter.Config.AllowOnHeadersStopIteration.GetValue(), filter.Config.FailurePolicy == wasm.FailurePolicy_FAIL_RELOAD})
				}
			}
		case "WasmPlugin":
			m, err := istioSpec(r)
			if err != nil {
				t.Fatal(err)
			}
			w := m.(*extensions.WasmPlugin)
			text, err := w.PluginConfig.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, plugin{r, string(text), false, w.FailStrategy == extensions.FailStrategy_FAIL_RELOAD})
		case "EnvoyExtensionPolicy":
			var e egv1a1.EnvoyExtensionPolicy
			if err := json.Unmarshal(r.JSON, &e); err != nil {
				t.Fatal(err)
			}
			if open := e.Spec.Wasm[0].FailOpen; open == nil || *open {
				t.Errorf("%s: want failOpen: false, said", r.From)
			}
			patched := patched(t, r.From)
			all = append(all, plugin{r, string(e.Spec.Wasm[0].Config.Raw), patched.AllowOnHeadersStopIteration.GetValue(), patched.FailurePolicy == wasm.FailurePolicy_FAIL_RELOAD})
		}
	}
	return all
}

// patched is what a folder's EnvoyPatchPolicy makes of an empty filter.
func patched(t *testing.T, from string) *wasm.PluginConfig {
	t.Helper()
	members := map[string]json.RawMessage{}
	for _, r := range built(t) {
		if r.From != from || r.Kind != "EnvoyPatchPolicy" {
			continue
		}
		var e egv1a1.EnvoyPatchPolicy
		if err := json.Unmarshal(r.JSON, &e); err != nil {
			t.Fatal(err)
		}
		for _, p := range e.Spec.JSONPatches {
			members[*p.Operation.Path] = p.Operation.Value.Raw
		}
	}
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	m := &wasm.PluginConfig{}
	if err := protojson.Unmarshal(text, m); err != nil {
		t.Fatalf("%s: %v in %s", from, err, text)
	}
	return m
}

// Every manifest has a filter that would start without a remark, never opens, and holds headers where the mesh lets it.
func TestFilters(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range plugins(t) {
		seen[p.From] = true
		if warnings, err := config.Check([]byte(p.config)); err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %q", p.From, err, warnings)
		}
		if !p.reload {
			t.Errorf("%s: want FAIL_RELOAD", p.From)
		}
		if held := p.From != "istio/wasmplugin"; p.holds != held {
			t.Errorf("%s: want headers held: %v, got %v", p.From, held, p.holds)
		}
		if caller := config.CallerHeaders([]byte(p.config)); len(caller) > 0 {
			t.Errorf("%s: takes %q for callers, which anybody may send", p.From, caller)
		}
		var c struct{ Default string }
		if err := json.Unmarshal([]byte(p.config), &c); err != nil || c.Default == "" || c.Default == "off" {
			t.Errorf("%s: default %q: want a policy, so that a route's name that is spelled wrongly does not open", p.From, c.Default)
		}
	}
	for _, folder := range kustomizations {
		if !seen[folder] {
			t.Errorf("%s: no filter in it", folder)
		}
	}
}

// istiod drops a WasmPlugin whose URL has no scheme, and its agent an EnvoyFilter's: calls would pass unguarded.
func TestSchemes(t *testing.T) {
	for _, r := range built(t) {
		if r.Kind != "EnvoyFilter" && r.Kind != "WasmPlugin" {
			continue
		}
		if !strings.Contains(string(r.JSON), `"oci://registry.example.com/callonce:0.1.0"`) {
			t.Errorf("%s: want an image with oci:// before it", r.From)
		}
	}
}

// The routes that a configuration speaks of are the routes that there are.
func TestRouteNames(t *testing.T) {
	routes := map[string][]string{}
	for _, r := range built(t) {
		if r.Kind == "VirtualService" {
			m, err := istioSpec(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range m.(interface {
				GetHttp() []*networking.HTTPRoute
			}).GetHttp() {
				routes[r.From] = append(routes[r.From], h.Name)
				// With several matches Istio joins their names to the route's.
				if len(h.Match) > 1 {
					t.Errorf("%s: route %s: want one match", r.From, h.Name)
				}
			}
		}
	}
	for _, p := range plugins(t) {
		var c struct{ Routes map[string]string }
		if err := json.Unmarshal([]byte(p.config), &c); err != nil {
			t.Fatal(err)
		}
		for name := range c.Routes {
			if !slices.Contains(routes[p.From], name) {
				t.Errorf("%s: the configuration speaks of the route %q, and there are %q", p.From, name, routes[p.From])
			}
		}
	}
}
