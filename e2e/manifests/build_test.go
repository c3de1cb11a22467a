package manifests_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v3"
)

const envoy = "../../envoy"

// kustomizations are the folders that users build, below envoy/.
var kustomizations = []string{"istio/gateway", "istio/jwt", "istio/sidecar", "istio/wasmplugin", "gateway/base", "gateway/jwt"}

// resource is one object, as the API server would get it.
type resource struct {
	From       string // the folder
	APIVersion string
	Kind       string
	Metadata   struct{ Name, Namespace string }
	JSON       []byte
}

// built are the objects of all kustomizations, built as kubectl would.
func built(t *testing.T) (all []resource) {
	t.Helper()
	for _, folder := range kustomizations {
		objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(envoy, folder))
		if err != nil {
			t.Fatalf("%s: %v", folder, err)
		}
		text, err := objects.AsYaml()
		if err != nil {
			t.Fatalf("%s: %v", folder, err)
		}
		all = append(all, split(t, folder, text)...)
	}
	if len(all) < 30 {
		t.Fatalf("want some thirty objects, got %d", len(all))
	}
	return all
}

// split reads a file of several objects.
func split(t *testing.T, from string, text []byte) (all []resource) {
	t.Helper()
	for d := goyaml.NewDecoder(bytes.NewReader(text)); ; {
		var node any
		err := d.Decode(&node)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", from, err)
		}
		doc, err := goyaml.Marshal(node)
		if err != nil {
			t.Fatalf("%s: %v", from, err)
		}
		r := resource{From: from}
		if r.JSON, err = yaml.YAMLToJSONStrict(doc); err == nil {
			err = yaml.Unmarshal(r.JSON, &r)
		}
		if err != nil || r.Kind == "" || r.Metadata.Name == "" {
			t.Fatalf("%s: want an object with a kind and a name, got %s (%v)", from, doc, err)
		}
		all = append(all, r)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(envoy, path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Every manifest is part of some kustomization, and a kustomization names nothing that is not there.
func TestEveryFileIsBuilt(t *testing.T) {
	seen := map[string]bool{"istio/routes/routes.yaml": true} // by two others
	for _, folder := range kustomizations {
		var k struct{ Resources []string }
		if err := yaml.Unmarshal(read(t, folder+"/kustomization.yaml"), &k); err != nil {
			t.Fatal(err)
		}
		for _, r := range k.Resources {
			seen[filepath.Join(folder, r)] = true
		}
	}
	for _, mesh := range []string{"istio", "gateway"} {
		files, err := filepath.Glob(filepath.Join(envoy, mesh, "*", "*.yaml"))
		if err != nil || len(files) < 5 {
			t.Fatalf("%v, %v", files, err)
		}
		for _, file := range files {
			name, err := filepath.Rel(envoy, file)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(name) != "kustomization.yaml" && !seen[name] {
				t.Errorf("%s: no kustomization has it", name)
			}
		}
	}
}
