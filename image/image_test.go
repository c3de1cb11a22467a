package image_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/callonce/callonce/image"
)

type built struct {
	wasm   []byte
	golang string
}

// build compiles the project once for all tests.
var build = sync.OnceValues(func() (built, error) {
	wasm, golang, err := image.Build("..")
	return built{wasm, golang}, err
})

func module(t *testing.T) built {
	t.Helper()
	b, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

var release = image.Release{Version: "1.2.3", Revision: strings.Repeat("ab", 20)}

func pack(t *testing.T) *image.Bundle {
	t.Helper()
	m, r := module(t), release
	r.Go = m.golang
	return must[*image.Bundle](t)(image.Pack(m.wasm, r))
}

func startRegistry(t *testing.T, options ...registry.Option) string {
	t.Helper()
	s := httptest.NewServer(registry.New(append(options, registry.Logger(log.New(io.Discard, "", 0)))...))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// What is pushed is what each mesh loads: by tag and by digest, the very bytes.
func TestPulledAsMeshesDo(t *testing.T) {
	b := pack(t)
	host := startRegistry(t, registry.WithReferrersSupport(true))
	if err := b.Push(host + "/team/callonce:1.2.3"); err != nil {
		t.Fatal(err)
	}
	digest := must[v1.Hash](t)(b.Digest())
	for _, ref := range []string{host + "/team/callonce:1.2.3", host + "/team/callonce@" + digest.String()} {
		wasm, got, err := fetch(ref)
		if err != nil {
			t.Fatalf("%s: %v", ref, err)
		}
		if got != digest.String() || !bytes.Equal(wasm, module(t).wasm) {
			t.Errorf("%s: want the module, digest %s, got %d bytes, digest %s", ref, digest, len(wasm), got)
		}
	}
}

// The rules of fetch are those of the meshes as they were tried: which layouts load, and which do not.
func TestLayouts(t *testing.T) {
	host := startRegistry(t)
	wasm := []byte("\x00asm\x01\x00\x00\x00")
	packed := must[[]v1.Layer](t)(pack(t).Image.Layers())[0]
	compressed := must[io.ReadCloser](t)(packed.Compressed())
	docker := static.NewLayer(must[[]byte](t)(io.ReadAll(compressed)), types.DockerLayer)
	compressed.Close()
	oci := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	raw := static.NewLayer(wasm, "application/vnd.module.wasm.content.layer.v1+wasm")
	other := static.NewLayer([]byte("{}"), "application/vnd.module.wasm.config.v1+json")
	for layout, c := range map[string]struct {
		base   v1.Image
		layers []v1.Layer
		loads  bool
	}{
		"Docker manifest, Docker layer":       {empty.Image, []v1.Layer{docker}, true},
		"Docker manifest, OCI layer":          {empty.Image, []v1.Layer{packed}, false},
		"OCI manifest, packed layer":          {oci, []v1.Layer{packed}, true},
		"OCI manifest, packed layer not last": {oci, []v1.Layer{packed, other}, false},
		"OCI manifest, packed layer last":     {oci, []v1.Layer{other, packed}, true},
		"OCI manifest, module and another":    {oci, []v1.Layer{raw, other}, true},
		"OCI manifest, module alone":          {oci, []v1.Layer{raw}, false},
		"OCI manifest, application/wasm":      {oci, []v1.Layer{static.NewLayer(wasm, "application/wasm")}, false},
	} {
		img := must[v1.Image](t)(mutate.AppendLayers(c.base, c.layers...))
		ref := host + "/x:" + strings.Map(func(r rune) rune {
			if r == ' ' || r == ',' || r == '/' {
				return '-'
			}
			return r
		}, layout)
		if err := remote.Write(must[name.Reference](t)(name.ParseReference(ref)), img); err != nil {
			t.Fatalf("%s: %v", layout, err)
		}
		if _, _, err := fetch(ref); (err == nil) != c.loads {
			t.Errorf("%s: want it to load: %v, got %v", layout, c.loads, err)
		}
	}
}

// One manifest and no index; one layer, which every tool for images can unpack; labels for version and source.
func TestManifest(t *testing.T) {
	img := pack(t).Image
	m := must[*v1.Manifest](t)(img.Manifest())
	if m.MediaType != types.OCIManifestSchema1 || m.Config.MediaType != types.OCIConfigJSON || len(m.Layers) != 1 || m.Layers[0].MediaType != types.OCILayer {
		t.Errorf("got %+v", m)
	}
	config := must[*v1.ConfigFile](t)(img.ConfigFile())
	for label, want := range map[string]string{
		"org.opencontainers.image.version": "1.2.3", "org.opencontainers.image.revision": release.Revision,
		"org.opencontainers.image.source": "https://github.com/callonce/callonce", "org.opencontainers.image.licenses": "Apache-2.0",
	} {
		if config.Config.Labels[label] != want || m.Annotations[label] != want {
			t.Errorf("%s: want %q, got %q and %q", label, want, config.Config.Labels[label], m.Annotations[label])
		}
	}
	if !config.Created.IsZero() {
		t.Errorf("want no time in it, got %v", config.Created)
	}
}

// Whoever asks a registry what refers to the image gets both documents, with and without its referrers API.
func TestReferrers(t *testing.T) {
	for _, api := range []bool{true, false} {
		b := pack(t)
		host := startRegistry(t, registry.WithReferrersSupport(api))
		if err := b.Push(host + "/callonce:1"); err != nil {
			t.Fatal(err)
		}
		digest := must[v1.Hash](t)(b.Digest())
		about := must[name.Digest](t)(name.NewDigest(host + "/callonce@" + digest.String()))
		index := must[v1.ImageIndex](t)(remote.Referrers(about))
		seen := map[string]bool{}
		for _, d := range must[*v1.IndexManifest](t)(index.IndexManifest()).Manifests {
			referrer := must[v1.Image](t)(remote.Image(about.Context().Digest(d.Digest.String())))
			m := must[*v1.Manifest](t)(referrer.Manifest())
			if m.Subject == nil || m.Subject.Digest != digest {
				t.Errorf("%s: want subject %s, got %+v", m.ArtifactType, digest, m.Subject)
			}
			seen[m.ArtifactType] = true
			r := must[io.ReadCloser](t)(must[[]v1.Layer](t)(referrer.Layers())[0].Compressed())
			text := must[[]byte](t)(io.ReadAll(r))
			r.Close()
			if !json.Valid(text) {
				t.Errorf("%s: want JSON, got %.100q", m.ArtifactType, text)
			}
		}
		if len(seen) != 2 || !seen["application/spdx+json"] || !seen["application/vnd.in-toto+json"] {
			t.Errorf("referrers API %v: got %v", api, seen)
		}
	}
}

// The list names what is linked in, the statement names this image and this module.
func TestDocuments(t *testing.T) {
	b := pack(t)
	dir := t.TempDir()
	if err := b.Write(filepath.Join(dir, "image")); err != nil {
		t.Fatal(err)
	}
	var list struct {
		SpdxVersion string
		Packages    []struct{ Name, VersionInfo string }
	}
	var statement struct {
		Type    string `json:"_type"`
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		PredicateType string
		Predicate     struct {
			BuildDefinition struct {
				ExternalParameters struct{ Package, Version string }
			}
		}
	}
	for file, into := range map[string]any{"sbom.spdx.json": &list, "provenance.intoto.json": &statement} {
		if err := json.Unmarshal(must[[]byte](t)(os.ReadFile(filepath.Join(dir, file))), into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	info, err := image.Modules(module(t).wasm)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, p := range list.Packages {
		versions[p.Name] = p.VersionInfo
	}
	if list.SpdxVersion != "SPDX-2.3" || versions["github.com/callonce/callonce"] != "1.2.3" || "go"+versions["stdlib"] != module(t).golang || len(versions) != 2+len(info.Deps) {
		t.Errorf("got %+v", list)
	}
	digest := must[v1.Hash](t)(b.Digest())
	if len(statement.Subject) != 2 || statement.Subject[0].Digest["sha256"] != digest.Hex || statement.Subject[1].Name != "plugin.wasm" ||
		statement.Type != "https://in-toto.io/Statement/v1" || statement.PredicateType != "https://slsa.dev/provenance/v1" ||
		statement.Predicate.BuildDefinition.ExternalParameters.Package != "github.com/callonce/callonce/plugin" {
		t.Errorf("got %+v", statement)
	}
	// The layout holds the image under its version, and both referrers.
	p := must[layout.Path](t)(layout.FromPath(filepath.Join(dir, "image")))
	manifests := must[*v1.IndexManifest](t)(must[v1.ImageIndex](t)(p.ImageIndex()).IndexManifest()).Manifests
	if len(manifests) != 3 || manifests[0].Digest != digest || manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.2.3" {
		t.Errorf("layout: got %+v", manifests)
	}
}

// A module that Go did not link has no list in it: no image that says nothing of what it holds.
func TestUnknownModule(t *testing.T) {
	if _, err := image.Pack([]byte("\x00asm\x01\x00\x00\x00"), image.Release{Version: "1", Go: "go1.26"}); err == nil || !strings.Contains(err.Error(), "no list of modules") {
		t.Errorf("got %v", err)
	}
	if err := pack(t).Push("callonce"); err == nil || !strings.Contains(err.Error(), "registry/name:tag") {
		t.Errorf("got %v", err)
	}
}

// Two builds have one digest, though made in other folders, at other times, with other settings of Go's, one in a checkout and one
// not. CALLONCE_COLD=1 gives each a compile cache of its own too, as two machines have.
func TestReproducible(t *testing.T) {
	var digests []string
	for i, flags := range []string{"-buildvcs=true", "-v"} {
		root := filepath.Join(t.TempDir(), strings.Repeat("deeper/", i), "source")
		copySource(t, root, time.Unix(int64(1e9*(i+1)), 0))
		t.Setenv("GOFLAGS", flags)
		if os.Getenv("CALLONCE_COLD") != "" {
			t.Setenv("GOCACHE", filepath.Join(t.TempDir(), "cache"))
		}
		if i == 1 {
			for _, args := range []string{"init -q", "add -A", "-c user.name=x -c user.email=x@example.com commit -q -m x"} {
				cmd := exec.Command("git", strings.Fields(args)...)
				cmd.Dir = root
				if text, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("git %s: %v\n%s", args, err, text)
				}
			}
		}
		wasm, golang, err := image.Build(root)
		if err != nil {
			t.Fatal(err)
		}
		r := release
		r.Go = golang
		b := must[*image.Bundle](t)(image.Pack(wasm, r))
		all := []string{}
		for _, img := range []v1.Image{b.Image, b.SBOM, b.Provenance} {
			all = append(all, must[v1.Hash](t)(img.Digest()).String())
		}
		digests = append(digests, strings.Join(all, " "))
	}
	if digests[0] != digests[1] {
		t.Errorf("want one, got\n%s\n%s", digests[0], digests[1])
	}
}

// copySource lays what the module is built of into a folder.
func copySource(t *testing.T, root string, when time.Time) {
	t.Helper()
	for _, from := range []string{"go.mod", "go.sum", "canonical", "plugin"} {
		err := filepath.WalkDir(filepath.Join("..", from), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") || strings.Contains(path, "realtest") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			to := filepath.Join(root, strings.TrimPrefix(path, ".."))
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(to, text, 0o640); err != nil {
				return err
			}
			return os.Chtimes(to, when, when)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
