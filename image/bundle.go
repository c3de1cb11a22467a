package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Bundle is an image and what refers to it.
type Bundle struct {
	Image            v1.Image
	SBOM, Provenance v1.Image
	files            map[string][]byte
	release          Release
}

// Pack makes the image of a module, and what refers to it.
func Pack(wasm []byte, release Release) (*Bundle, error) {
	if release.Version == "" || len(release.Go) < len("go1") {
		return nil, errors.New("want a version, and the Go release of the build")
	}
	info, err := Modules(wasm)
	if err != nil {
		return nil, err
	}
	b := &Bundle{release: release, files: map[string][]byte{}}
	if b.Image, err = New(wasm, release); err != nil {
		return nil, err
	}
	list, err := sbom(wasm, info, release)
	if err != nil {
		return nil, err
	}
	origin, err := provenance(b.Image, wasm, info, release)
	if err != nil {
		return nil, err
	}
	b.files["sbom.spdx.json"], b.files["provenance.intoto.json"] = list, origin
	if b.SBOM, err = newReferrer(b.Image, SBOMType, list, "sbom.spdx.json"); err != nil {
		return nil, err
	}
	b.Provenance, err = newReferrer(b.Image, ProvenanceType, origin, "provenance.intoto.json")
	return b, err
}

// Digest is what manifests name the image by.
func (b *Bundle) Digest() (v1.Hash, error) { return b.Image.Digest() }

// Write replaces the folder dir by an OCI layout of the bundle, and lays the documents
// beside it as files.
func (b *Bundle) Write(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := p.AppendImage(b.Image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": b.release.Version})); err != nil {
		return err
	}
	for _, referrer := range []v1.Image{b.SBOM, b.Provenance} {
		if err := p.AppendImage(referrer); err != nil {
			return err
		}
	}
	for name, text := range b.files {
		if err := os.WriteFile(filepath.Join(filepath.Dir(dir), name), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Push sends the bundle to a registry, the image under the tag of ref. What refers to
// it goes first, so that whoever sees the tag finds it.
func (b *Bundle) Push(ref string, options ...remote.Option) error {
	tag, err := name.NewTag(ref, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("IMAGE: want registry/name:tag: %w", err)
	}
	for _, referrer := range []v1.Image{b.SBOM, b.Provenance} {
		d, err := referrer.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(tag.Context().Digest(d.String()), referrer, options...); err != nil {
			return err
		}
	}
	return remote.Write(tag, b.Image, options...)
}
