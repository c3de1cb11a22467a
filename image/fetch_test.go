package image_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// fetch reads the module from a registry by the rules that Istio's pilot-agent (1.31) and
// Envoy Gateway (1.9) have in common:
//
//   - a Docker manifest: the last layer is …docker.image.rootfs.diff.tar.gzip with plugin.wasm in it;
//   - any other: the last layer is …oci.image.layer.v1.tar+gzip with plugin.wasm in it,
//   - else there are exactly two layers, and one of them is …module.wasm.content.layer.v1+wasm: the module itself.
func fetch(ref string) (wasm []byte, digest string, err error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return nil, "", err
	}
	img, err := remote.Image(parsed)
	if err != nil {
		return nil, "", err
	}
	d, err := img.Digest()
	if err != nil {
		return nil, "", err
	}
	m, err := img.Manifest()
	if err != nil {
		return nil, "", err
	}
	layers, err := img.Layers()
	if err != nil || len(layers) == 0 {
		return nil, "", errors.Join(err, errors.New("no layers"))
	}
	last := layers[len(layers)-1]
	if m.MediaType == types.DockerManifestSchema2 {
		wasm, err = unpack(last, types.DockerLayer)
		return wasm, d.String(), err
	}
	if wasm, err = unpack(last, types.OCILayer); err == nil {
		return wasm, d.String(), nil
	}
	if len(layers) != 2 {
		return nil, "", fmt.Errorf("%d layers, none to unpack: %w", len(layers), err)
	}
	for _, l := range layers {
		if mt, _ := l.MediaType(); mt == "application/vnd.module.wasm.content.layer.v1+wasm" {
			r, err := l.Compressed()
			if err != nil {
				return nil, "", err
			}
			wasm, err = io.ReadAll(r)
			return wasm, d.String(), err
		}
	}
	return nil, "", errors.New("no module in two layers")
}

func unpack(l v1.Layer, want types.MediaType) ([]byte, error) {
	if mt, err := l.MediaType(); err != nil || mt != want {
		return nil, fmt.Errorf("layer of type %s, want %s (%v)", mt, want, err)
	}
	packed, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if err != nil {
			return nil, fmt.Errorf("no plugin.wasm: %w", err)
		}
		if path.Base(h.Name) == "plugin.wasm" {
			return io.ReadAll(archive)
		}
	}
}
