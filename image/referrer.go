package image

import (
	"encoding/json"
	"errors"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Types of the referrers, by which tools ask for them.
const (
	SBOMType       types.MediaType = "application/spdx+json"
	ProvenanceType types.MediaType = "application/vnd.in-toto+json"

	emptyType types.MediaType = "application/vnd.oci.empty.v1+json"
)

// referrer is a manifest that says something of another one, its subject (OCI image
// specification 1.1, "Guidelines for Artifact Usage").
type referrer struct {
	raw     []byte
	content v1.Layer
}

func newReferrer(subject v1.Image, of types.MediaType, content []byte, title string) (v1.Image, error) {
	about, err := partial.Descriptor(subject)
	if err != nil {
		return nil, err
	}
	layer := static.NewLayer(content, of)
	described, err := partial.Descriptor(layer)
	if err != nil {
		return nil, err
	}
	described.Annotations = map[string]string{"org.opencontainers.image.title": title}
	config := static.NewLayer([]byte("{}"), emptyType)
	none, err := partial.Descriptor(config)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: string(of), Config: *none, Layers: []v1.Descriptor{*described},
		Subject: &v1.Descriptor{MediaType: about.MediaType, Size: about.Size, Digest: about.Digest},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&referrer{raw, layer})
}

func (r *referrer) RawConfigFile() ([]byte, error)      { return []byte("{}"), nil }
func (r *referrer) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (r *referrer) RawManifest() ([]byte, error)        { return r.raw, nil }

func (r *referrer) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	if d, err := r.content.Digest(); err != nil || d != h {
		return nil, errors.New("no such layer: " + h.String())
	}
	return r.content, nil
}
