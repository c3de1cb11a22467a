package manifests_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// definitions are the files, in modules that this one requires, that an operator installs a mesh's kinds with.
var definitions = map[string]string{
	"istio.io/api":                  "kubernetes/customresourcedefinitions.gen.yaml",
	"github.com/envoyproxy/gateway": "charts/gateway-crds-helm/templates/generated/*.yaml",
	"sigs.k8s.io/gateway-api":       "config/crd/standard/*.yaml",
}

// Each object is one that an API server would take: by its kind's definition, with no member that would be dropped.
// (Rules in CEL are not run.)
func TestDefinitions(t *testing.T) {
	schemas := map[string]*jsonschema.Schema{}
	for module, pattern := range definitions {
		dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", module, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, doc := range bytes.Split(text, []byte("\n---\n")) {
				// Envoy Gateway's stand between the braces of a Helm template.
				doc = regexp.MustCompile(`(?m)^\{\{.*$`).ReplaceAll(doc, nil)
				define(t, schemas, doc)
			}
		}
	}
	for _, r := range built(t) {
		s := schemas[r.APIVersion+" "+r.Kind]
		if s == nil {
			t.Errorf("%s: %s %s: no definition of it", r.From, r.APIVersion, r.Kind)
			continue
		}
		var object struct{ Spec json.RawMessage }
		if err := json.Unmarshal(r.JSON, &object); err != nil {
			t.Fatal(err)
		}
		spec, err := jsonschema.UnmarshalJSON(bytes.NewReader(object.Spec))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(spec); err != nil {
			t.Errorf("%s: %s %s: %v", r.From, r.Kind, r.Metadata.Name, err)
		}
	}
}

// define makes of a definition a JSON Schema of the kind's spec, for each version.
func define(t *testing.T, schemas map[string]*jsonschema.Schema, doc []byte) {
	t.Helper()
	var crd struct {
		Kind string
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema struct{ Properties map[string]any }
				}
			}
		}
	}
	if err := yaml.Unmarshal(doc, &crd); err != nil || crd.Kind != "CustomResourceDefinition" {
		return
	}
	for _, v := range crd.Spec.Versions {
		name := crd.Spec.Group + "/" + v.Name + " " + crd.Spec.Names.Kind
		if istioTypes[name] == nil && gatewayTypes[name] == nil {
			continue
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("x.json", closed(v.Schema.OpenAPIV3Schema.Properties["spec"])); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s, err := c.Compile("x.json")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		schemas[name] = s
	}
}

// closed is a schema of Kubernetes' kind as one of JSON Schema: what it does not name is a mistake.
func closed(node any) any {
	switch n := node.(type) {
	case []any:
		for i := range n {
			n[i] = closed(n[i])
		}
	case map[string]any:
		for name, v := range n {
			n[name] = closed(v)
		}
		if _, ok := n["format"].(string); ok { // else it is a member of that name
			delete(n, "format")
		}
		_, has := n["properties"].(map[string]any)
		if _, more := n["additionalProperties"]; has && n["type"] == "object" && !more && n["x-kubernetes-preserve-unknown-fields"] != true {
			n["additionalProperties"] = false
		}
	}
	return node
}
