package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// file is where both meshes look for the module in the layer.
const file = "plugin.wasm"

// Source is where the project lives.
const Source = "https://github.com/callonce/callonce"

// Release says which build of the filter an image holds.
type Release struct {
	Version  string // such as "1.2.0"
	Revision string // the commit, in hex; empty where the source was no checkout
	Go       string // such as "go1.26.8"
}

// labels stand in the image's configuration and, for registries that show them, in its
// manifest (OCI, "Pre-Defined Annotation Keys").
func (r Release) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       "callonce",
		"org.opencontainers.image.description": "Makes MCP tool calls safe to repeat: a proxy-wasm filter for Envoy, Istio and Envoy Gateway",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      Source,
		"org.opencontainers.image.version":     r.Version,
	}
	if r.Revision != "" {
		labels["org.opencontainers.image.revision"] = r.Revision
	}
	return labels
}

// New packs a module. Of the layouts that both meshes read it is the one that registries
// and scanners know too: one layer of type application/vnd.oci.image.layer.v1.tar+gzip,
// one manifest and no index.
func New(wasm []byte, release Release) (v1.Image, error) {
	layer, err := layer(wasm)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: "wasm", OS: "wasip1", RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
		Config: v1.Config{Labels: release.labels()},
	})
	if err != nil {
		return nil, err
	}
	if img, err = mutate.AppendLayers(img, layer); err != nil {
		return nil, err
	}
	return mutate.Annotations(img, release.labels()).(v1.Image), nil
}

// layer is a packed archive with the one file, without time or owner.
func layer(wasm []byte) (v1.Layer, error) {
	var archive bytes.Buffer
	t := tar.NewWriter(&archive)
	if err := t.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(wasm)), Format: tar.FormatUSTAR}); err != nil {
		return nil, err
	}
	if _, err := t.Write(wasm); err != nil {
		return nil, err
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}
