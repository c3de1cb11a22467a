package manifests_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	egv1a1 "github.com/envoyproxy/gateway/api/v1alpha1"
	"google.golang.org/protobuf/encoding/protojson"
	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// envoyYAML is envoy/envoy.yaml, whose choices the manifests make too.
type envoyYAML struct {
	StaticResources struct {
		Listeners []struct {
			Buffer       int `json:"per_connection_buffer_limit_bytes"`
			FilterChains []struct {
				Filters []struct {
					TypedConfig map[string]any `json:"typed_config"`
				}
			} `json:"filter_chains"`
		}
		Clusters []struct {
			Options map[string]struct {
				Common struct {
					IdleTimeout string `json:"idle_timeout"`
				} `json:"common_http_protocol_options"`
			} `json:"typed_extension_protocol_options"`
		}
	} `json:"static_resources"`
	StatsConfig any `json:"stats_config"`
}

func plain(t *testing.T) (e envoyYAML) {
	t.Helper()
	if err := yaml.Unmarshal(read(t, "envoy.yaml"), &e); err != nil || len(e.StaticResources.Listeners) == 0 {
		t.Fatalf("envoy.yaml: %v", err)
	}
	return e
}

func (e envoyYAML) idleTimeout() string {
	for _, o := range e.StaticResources.Clusters[0].Options {
		return o.Common.IdleTimeout
	}
	return ""
}

// What Istio's listeners are merged with is what envoy.yaml has: the spellings of paths, the mapper of local replies and the rest.
func TestListenersAlike(t *testing.T) {
	e := plain(t)
	want := e.StaticResources.Listeners[0].FilterChains[0].Filters[0].TypedConfig
	merges := 0
	for _, r := range built(t) {
		if r.Kind != "EnvoyFilter" {
			continue
		}
		m, err := istioSpec(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.(*networking.EnvoyFilter).ConfigPatches {
			if p.ApplyTo != networking.EnvoyFilter_NETWORK_FILTER {
				continue
			}
			merges++
			got, _ := p.Patch.Value.AsMap()["typed_config"].(map[string]any)
			for _, member := range []string{"normalize_path", "merge_slashes", "path_with_escaped_slashes_action", "http_protocol_options", "request_headers_timeout", "request_timeout", "local_reply_config"} {
				if got[member] == nil || !reflect.DeepEqual(got[member], want[member]) {
					t.Errorf("%s: %s: want %v, got %v", r.From, member, want[member], got[member])
				}
			}
			// A sidecar has one route for all, and so no other limit for a server's own stream.
			if got["stream_idle_timeout"] != want["stream_idle_timeout"] && r.From != "istio/sidecar" {
				t.Errorf("%s: stream_idle_timeout: want %v, got %v", r.From, want["stream_idle_timeout"], got["stream_idle_timeout"])
			}
		}
	}
	if merges != 3 {
		t.Errorf("want three, found %d", merges)
	}
}

// Every route to a server closes idle connections before the server does, whichever mesh.
func TestIdleTimeouts(t *testing.T) {
	want := `"` + plain(t).idleTimeout() + `"`
	for folder, member := range map[string]string{
		"istio/gateway": `"idleTimeout":` + want, "istio/jwt": `"idleTimeout":` + want, "istio/wasmplugin": `"idleTimeout":` + want, "istio/sidecar": `"idleTimeout":` + want,
		"gateway/base": `"connectionIdleTimeout":` + want, "gateway/jwt": `"connectionIdleTimeout":` + want,
	} {
		found := false
		for _, r := range built(t) {
			found = found || r.From == folder && strings.Contains(string(r.JSON), member)
			if r.Kind == "BackendTrafficPolicy" && !strings.Contains(string(r.JSON), member) && r.From == folder {
				t.Errorf("%s: %s: want %s", folder, r.Metadata.Name, member)
			}
		}
		if !found || want == `""` {
			t.Errorf("%s: want %s", folder, member)
		}
	}
}

// The labels of the filter's metrics are the same everywhere.
func TestStatsTagsAlike(t *testing.T) {
	want := plain(t).StatsConfig
	text, err := yaml.YAMLToJSON(read(t, "istio/mesh.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var m mesh.MeshConfig
	if err := protojson.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	var names []string
	tags, _ := want.(map[string]any)["stats_tags"].([]any)
	for _, tag := range tags {
		names = append(names, tag.(map[string]any)["tag_name"].(string))
	}
	if len(names) == 0 || !slices.Equal(m.DefaultConfig.ExtraStatTags, names) {
		t.Errorf("istio/mesh.yaml: want %q, got %q", names, m.DefaultConfig.ExtraStatTags)
	}
	for _, r := range built(t) {
		if r.Kind != "EnvoyProxy" {
			continue
		}
		var p egv1a1.EnvoyProxy
		if err := json.Unmarshal(r.JSON, &p); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := yaml.Unmarshal([]byte(*p.Spec.Bootstrap.Value), &got); err != nil || !reflect.DeepEqual(got["stats_config"], want) {
			t.Errorf("%s: want %v, got %v (%v)", r.From, want, got, err)
		}
	}
}

// Envoy Gateway's listener takes calls as long as the filter does, and its patches and policies hit what there is.
func TestGatewayTargets(t *testing.T) {
	names := map[string]bool{}
	for _, r := range built(t) {
		names[r.From+" "+r.Kind+" "+r.Metadata.Namespace+"/"+r.Metadata.Name] = true
		if r.Kind == "Gateway" && strings.HasPrefix(r.From, "gateway") {
			var g gwapiv1.Gateway
			if err := json.Unmarshal(r.JSON, &g); err != nil {
				t.Fatal(err)
			}
			for _, l := range g.Spec.Listeners {
				names[r.From+" listener "+r.Metadata.Namespace+"/"+r.Metadata.Name+"/"+string(l.Name)] = true
			}
		}
	}
	for _, r := range built(t) {
		if !strings.HasPrefix(r.From, "gateway") {
			continue
		}
		var o struct {
			Spec struct {
				TargetRef   *struct{ Kind, Name string }
				TargetRefs  []struct{ Kind, Name string }
				ParentRefs  []struct{ Name string }
				JSONPatches []struct{ Name string }
				Connection  struct{ BufferLimit string }
			}
		}
		if err := json.Unmarshal(r.JSON, &o); err != nil {
			t.Fatal(err)
		}
		var wanted []string
		if o.Spec.TargetRef != nil {
			o.Spec.TargetRefs = append(o.Spec.TargetRefs, *o.Spec.TargetRef)
		}
		for _, ref := range o.Spec.TargetRefs {
			wanted = append(wanted, ref.Kind+" "+r.Metadata.Namespace+"/"+ref.Name)
		}
		for _, ref := range o.Spec.ParentRefs {
			wanted = append(wanted, "Gateway "+r.Metadata.Namespace+"/"+ref.Name)
		}
		for _, p := range o.Spec.JSONPatches {
			wanted = append(wanted, "listener "+p.Name)
		}
		for _, w := range wanted {
			if !names[r.From+" "+w] {
				t.Errorf("%s: %s %s: there is no %s", r.From, r.Kind, r.Metadata.Name, w)
			}
		}
		if r.Kind == "ClientTrafficPolicy" && (o.Spec.Connection.BufferLimit != "1Mi" || plain(t).StaticResources.Listeners[0].Buffer != 1<<20) {
			t.Errorf("%s: bufferLimit: want what envoy.yaml has, got %s", r.From, o.Spec.Connection.BufferLimit)
		}
	}
}
