package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"runtime/debug"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// How a module was built, as in-toto statement 1 with SLSA provenance 1. It is not
// signed: who pushes an image signs its digest with a key of their own.
type (
	statement struct {
		Type          string     `json:"_type"`
		Subject       []resource `json:"subject"`
		PredicateType string     `json:"predicateType"`
		Predicate     predicate  `json:"predicate"`
	}
	resource struct {
		Name   string            `json:"name,omitempty"`
		URI    string            `json:"uri,omitempty"`
		Digest map[string]string `json:"digest,omitempty"`
	}
	predicate struct {
		Definition definition `json:"buildDefinition"`
		Run        struct {
			Builder struct {
				ID string `json:"id"`
			} `json:"builder"`
		} `json:"runDetails"`
	}
	definition struct {
		Type         string     `json:"buildType"`
		Parameters   parameters `json:"externalParameters"`
		Dependencies []resource `json:"resolvedDependencies"`
	}
	parameters struct {
		Package     string   `json:"package"`
		Version     string   `json:"version"`
		Flags       []string `json:"flags"`
		Environment []string `json:"environment"`
	}
)

func provenance(img v1.Image, wasm []byte, info *debug.BuildInfo, release Release) ([]byte, error) {
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	source := resource{URI: "git+" + Source}
	if release.Revision != "" {
		source.Digest = map[string]string{"gitCommit": release.Revision}
	}
	s := statement{
		Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1",
		Subject: []resource{
			{Name: "callonce", Digest: map[string]string{digest.Algorithm: digest.Hex}},
			{Name: file, Digest: map[string]string{"sha256": sha256Hex(wasm)}},
		},
		Predicate: predicate{Definition: definition{
			Type:         Source + "/image/build/v1",
			Parameters:   parameters{info.Path, release.Version, flags, environment},
			Dependencies: []resource{source, {URI: "pkg:golang/stdlib@" + release.Go[len("go"):]}},
		}},
	}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		s.Predicate.Definition.Dependencies = append(s.Predicate.Definition.Dependencies, resource{URI: "pkg:golang/" + dep.Path + "@" + dep.Version})
	}
	s.Predicate.Run.Builder.ID = Source + "/image/cmd/image"
	return json.MarshalIndent(s, "", "  ")
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
