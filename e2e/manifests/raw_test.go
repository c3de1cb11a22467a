package manifests_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/callonce/callonce/plugin/config"
)

// Whoever applies a file as it is, without kustomize, gets the same filter: kubectl reads YAML 1.1, in which a bare off is
// a boolean.
func TestAppliedAsTheyAre(t *testing.T) {
	for _, file := range []string{"istio/wasmplugin/callonce.yaml", "gateway/base/callonce.yaml"} {
		seen := false
		for doc := range strings.SplitSeq(string(read(t, file)), "\n---\n") {
			var object struct {
				Spec struct {
					PluginConfig json.RawMessage
					Wasm         []struct{ Config json.RawMessage }
				}
			}
			if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			text := object.Spec.PluginConfig
			if len(object.Spec.Wasm) > 0 {
				text = object.Spec.Wasm[0].Config
			}
			if text == nil {
				continue
			}
			seen = true
			if warnings, err := config.Check(text); err != nil || len(warnings) > 0 {
				t.Errorf("%s: %v %q", file, err, warnings)
			}
		}
		if !seen {
			t.Errorf("%s: no filter in it", file)
		}
	}
}

// The rule that says whose certificate was validated is that of mtls-jwt.yaml, under the name where the filter looks.
func TestShadowRuleAlike(t *testing.T) {
	find := func(file string) (found map[string]any) {
		var walk func(any)
		walk = func(node any) {
			switch n := node.(type) {
			case []any:
				for _, e := range n {
					walk(e)
				}
			case map[string]any:
				if n["shadow_rules_stat_prefix"] != nil {
					found = map[string]any{"prefix": n["shadow_rules_stat_prefix"], "rules": n["shadow_rules"]}
				}
				for _, e := range n {
					walk(e)
				}
			}
		}
		for doc := range strings.SplitSeq(string(read(t, file)), "\n---\n") {
			var tree any
			if err := yaml.Unmarshal([]byte(doc), &tree); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			walk(tree)
		}
		return found
	}
	want, got := find("mtls-jwt.yaml"), find("istio/sidecar/callonce.yaml")
	if want == nil || !reflect.DeepEqual(got, want) {
		t.Errorf("want %v, got %v", want, got)
	}
}
