package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// asked are the fields that are published only where log names them.
var asked = []string{"tool", "duplicate_source", "settled", "settled_by", "arguments_hash", "request_id", "session_hash", "attempt"}

// A shipped configuration asks for the fields that its access log shows, and for no others.
func TestShippedConfigurationsAskForWhatTheyLog(t *testing.T) {
	for configuration, format := range map[string]string{
		"envoy/envoy.yaml":                     "envoy/envoy.yaml",
		"envoy/detach.yaml":                    "envoy/detach.yaml",
		"envoy/dynamic/listeners.yaml":         "envoy/dynamic/listeners.yaml",
		"envoy/mtls-jwt.yaml":                  "envoy/mtls-jwt.yaml",
		"envoy/gateway/base/callonce.yaml":     "envoy/gateway/base/gateway.yaml",
		"envoy/istio/gateway/callonce.yaml":    "envoy/istio/mesh.yaml",
		"envoy/istio/jwt/kustomization.yaml":   "envoy/istio/mesh.yaml",
		"envoy/istio/sidecar/callonce.yaml":    "envoy/istio/mesh.yaml",
		"envoy/istio/wasmplugin/callonce.yaml": "envoy/istio/mesh.yaml",
	} {
		var shown []string
		for _, m := range regexp.MustCompile(`wasm\.callonce\.([a-z_]+):PLAIN`).FindAllStringSubmatch(read(t, format), -1) {
			if slices.Contains(asked, m[1]) {
				shown = append(shown, m[1])
			}
		}
		m := regexp.MustCompile(`(?m)^ *"?log"?: \[(.*?)\]`).FindStringSubmatch(read(t, configuration))
		if m == nil {
			t.Errorf("%s: want log", configuration)
			continue
		}
		got := strings.FieldsFunc(m[1], func(c rune) bool { return strings.ContainsRune(`", `, c) })
		slices.Sort(got)
		slices.Sort(shown)
		if !slices.Equal(got, shown) {
			t.Errorf("%s asks for %v, and %s shows %v", configuration, got, format, shown)
		}
	}
}
