package image

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
)

// The members of SPDX 2.3 that are used here (https://spdx.github.io/spdx-spec/v2.3/).
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		License       string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID               string          `json:"SPDXID"`
		Name             string          `json:"name"`
		Version          string          `json:"versionInfo"`
		Download         string          `json:"downloadLocation"`
		Analyzed         bool            `json:"filesAnalyzed"`
		LicenseConcluded string          `json:"licenseConcluded"`
		LicenseDeclared  string          `json:"licenseDeclared"`
		Copyright        string          `json:"copyrightText"`
		Comment          string          `json:"comment,omitempty"`
		Checksums        []spdxChecksum  `json:"checksums,omitempty"`
		References       []spdxReference `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		To   string `json:"relatedSpdxElement"`
		Type string `json:"relationshipType"`
	}
)

const none = "NOASSERTION"

// sbom lists, as SPDX, what the compiled module is made of. The time of creation, which
// SPDX demands, is the zero of Unix time: nothing in here may differ between two builds.
func sbom(wasm []byte, info *debug.BuildInfo, release Release) ([]byte, error) {
	self := goPackage(info.Main.Path, release.Version, "")
	self.ID, self.LicenseDeclared, self.Download = "SPDXRef-callonce", "Apache-2.0", "git+"+Source
	if release.Revision != "" {
		self.Download += "@" + release.Revision
	}
	self.Checksums = []spdxChecksum{{"SHA256", sha256Hex(wasm)}}
	parts := []spdxPackage{goPackage("stdlib", strings.TrimPrefix(release.Go, "go"), "")}
	parts[0].LicenseDeclared = "BSD-3-Clause"
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		parts = append(parts, goPackage(dep.Path, dep.Version, dep.Sum))
	}
	doc := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "callonce " + release.Version,
		Namespace:     Source + "/spdx/" + sha256Hex(wasm),
		Creation:      spdxCreation{"1970-01-01T00:00:00Z", []string{"Tool: callonce-image"}},
		Packages:      append([]spdxPackage{self}, parts...),
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", self.ID, "DESCRIBES"}},
	}
	for _, part := range parts {
		doc.Relationships = append(doc.Relationships, spdxRelationship{self.ID, part.ID, "CONTAINS"})
	}
	return json.MarshalIndent(doc, "", "  ")
}

// ProgramsSBOM lists, as SPDX, what the commands of a platform are made of: the contents
// of executables by their names.
func ProgramsSBOM(version, platform string, programs map[string][]byte) ([]byte, error) {
	doc := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "callonce " + version + " " + platform,
		Namespace: Source + "/spdx/" + version + "/" + platform,
		Creation:  spdxCreation{"1970-01-01T00:00:00Z", []string{"Tool: callonce-image"}},
	}
	parts := map[string]spdxPackage{}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		info, err := buildinfo.Read(bytes.NewReader(programs[name]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		self := goPackage(info.Path, version, "")
		self.ID, self.Name, self.LicenseDeclared, self.Download = "SPDXRef-command-"+name, name, "Apache-2.0", "git+"+Source
		self.Checksums = []spdxChecksum{{"SHA256", sha256Hex(programs[name])}}
		doc.Packages = append(doc.Packages, self)
		doc.Relationships = append(doc.Relationships, spdxRelationship{doc.ID, self.ID, "DESCRIBES"})
		std := goPackage("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")
		std.LicenseDeclared = "BSD-3-Clause"
		linked := []spdxPackage{std}
		for _, dep := range info.Deps {
			if dep.Replace != nil {
				dep = dep.Replace
			}
			linked = append(linked, goPackage(dep.Path, dep.Version, dep.Sum))
		}
		for _, part := range linked {
			parts[part.ID] = part
			doc.Relationships = append(doc.Relationships, spdxRelationship{self.ID, part.ID, "CONTAINS"})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(parts)) {
		doc.Packages = append(doc.Packages, parts[id])
	}
	return json.MarshalIndent(doc, "", "  ")
}

func goPackage(path, version, sum string) spdxPackage {
	id := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, path)
	p := spdxPackage{
		ID: "SPDXRef-" + id, Name: path, Version: version, Download: none, LicenseConcluded: none, LicenseDeclared: none, Copyright: none,
		References: []spdxReference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + strings.ToLower(path) + "@" + version}},
	}
	if sum != "" {
		p.Comment = "go.sum: " + sum
	}
	return p
}
