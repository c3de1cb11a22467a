package e2e_test

import (
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/callonce/callonce/e2e/envoytest"
)

// addTracing adds tracing, a YAML text, to the connection manager, with a collector.
func addTracing(t *testing.T, e *envoytest.Tree, text, url string) {
	t.Helper()
	var given struct{ Tracing map[string]any }
	if err := yaml.Unmarshal([]byte(text), &given); err != nil {
		t.Fatal(err)
	}
	given.Tracing["provider"] = map[string]any{
		"name": "envoy.tracers.opentelemetry",
		"typed_config": map[string]any{
			"@type":        "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig",
			"service_name": "proxy",
			"http_service": map[string]any{"http_uri": map[string]any{"uri": url + "/v1/traces", "cluster": "collector", "timeout": "1s"}},
		},
	}
	e.Object(envoytest.Manager...)["tracing"] = given.Tracing
	e.Insert([]any{e.Cluster("collector", url)}, envoytest.Clusters...)
}
