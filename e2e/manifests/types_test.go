package manifests_test

import (
	"encoding/json"
	"testing"

	egv1a1 "github.com/envoyproxy/gateway/api/v1alpha1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	extensions "istio.io/api/extensions/v1alpha1"
	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1"
	networkingv1a3 "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// istioTypes gives for each kind of Istio's the message that its spec is.
var istioTypes = map[string]func() proto.Message{
	"networking.istio.io/v1 Gateway":             func() proto.Message { return &networking.Gateway{} },
	"networking.istio.io/v1 VirtualService":      func() proto.Message { return &networking.VirtualService{} },
	"networking.istio.io/v1 DestinationRule":     func() proto.Message { return &networking.DestinationRule{} },
	"networking.istio.io/v1 Sidecar":             func() proto.Message { return &networking.Sidecar{} },
	"networking.istio.io/v1alpha3 EnvoyFilter":   func() proto.Message { return &networkingv1a3.EnvoyFilter{} },
	"extensions.istio.io/v1alpha1 WasmPlugin":    func() proto.Message { return &extensions.WasmPlugin{} },
	"security.istio.io/v1 RequestAuthentication": func() proto.Message { return &security.RequestAuthentication{} },
	"security.istio.io/v1 AuthorizationPolicy":   func() proto.Message { return &security.AuthorizationPolicy{} },
	"security.istio.io/v1 PeerAuthentication":    func() proto.Message { return &security.PeerAuthentication{} },
}

// gatewayTypes gives for each kind of Envoy Gateway's and the Gateway API's the type of the object.
var gatewayTypes = map[string]func() any{
	"gateway.networking.k8s.io/v1 Gateway":                func() any { return &gwapiv1.Gateway{} },
	"gateway.networking.k8s.io/v1 HTTPRoute":              func() any { return &gwapiv1.HTTPRoute{} },
	"gateway.envoyproxy.io/v1alpha1 EnvoyProxy":           func() any { return &egv1a1.EnvoyProxy{} },
	"gateway.envoyproxy.io/v1alpha1 EnvoyExtensionPolicy": func() any { return &egv1a1.EnvoyExtensionPolicy{} },
	"gateway.envoyproxy.io/v1alpha1 EnvoyPatchPolicy":     func() any { return &egv1a1.EnvoyPatchPolicy{} },
	"gateway.envoyproxy.io/v1alpha1 ClientTrafficPolicy":  func() any { return &egv1a1.ClientTrafficPolicy{} },
	"gateway.envoyproxy.io/v1alpha1 BackendTrafficPolicy": func() any { return &egv1a1.BackendTrafficPolicy{} },
	"gateway.envoyproxy.io/v1alpha1 SecurityPolicy":       func() any { return &egv1a1.SecurityPolicy{} },
}

// Each object is one of the mesh's own type, with no member that the type does not have.
func TestTypes(t *testing.T) {
	for _, r := range built(t) {
		kind := r.APIVersion + " " + r.Kind
		var err error
		switch {
		case istioTypes[kind] != nil:
			_, err = istioSpec(r)
		case gatewayTypes[kind] != nil:
			err = yaml.UnmarshalStrict(r.JSON, gatewayTypes[kind]())
		default:
			t.Errorf("%s: a %s, which no mesh knows", r.From, kind)
		}
		if err != nil {
			t.Errorf("%s: %s %s: %v", r.From, r.Kind, r.Metadata.Name, err)
		}
	}
}

// istioSpec decodes a spec as istiod does, but for istiod's leniency.
func istioSpec(r resource) (proto.Message, error) {
	var object struct{ Spec json.RawMessage }
	if err := json.Unmarshal(r.JSON, &object); err != nil {
		return nil, err
	}
	m := istioTypes[r.APIVersion+" "+r.Kind]()
	return m, protojson.Unmarshal(object.Spec, m)
}

// What belongs to no object: the mesh's configuration, and Envoy Gateway's.
func TestControlPlanes(t *testing.T) {
	text, err := yaml.YAMLToJSONStrict(read(t, "istio/mesh.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var m mesh.MeshConfig
	if err := protojson.Unmarshal(text, &m); err != nil {
		t.Errorf("istio/mesh.yaml: %v", err)
	}
	if !json.Valid([]byte(m.AccessLogFormat)) {
		t.Errorf("istio/mesh.yaml: accessLogFormat: want JSON, got %s", m.AccessLogFormat)
	}
	var g egv1a1.EnvoyGateway
	if err := yaml.UnmarshalStrict(read(t, "gateway/envoy-gateway.yaml"), &g); err != nil {
		t.Errorf("gateway/envoy-gateway.yaml: %v", err)
	}
	if g.ExtensionAPIs == nil || !g.ExtensionAPIs.EnableEnvoyPatchPolicy {
		t.Error("gateway/envoy-gateway.yaml: want patches allowed, else callonce.yaml's is ignored")
	}
}
