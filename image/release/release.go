// Package release lays out what a release publishes: the module, its image, the commands
// for each platform, the manifests, the schema of the configuration, lists of what they
// were made of, and the checksums of all.
//
// Like the image it is a function of the source, the version and the Go release: two
// people who make it of one tag get the same bytes. It knows nothing of what the filter
// does, and publishes nothing by itself.
package release

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/callonce/callonce/image"
)

// Platform is an operating system and an architecture, as Go calls them.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "-" + p.Arch }

// Platforms are those that commands are built for.
var Platforms = []Platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// commands are what is built for each platform, by the package.
var commands = map[string]string{"callonce": "./plugin/cmd/callonce", "hostsim": "./hostsim/cmd/hostsim"}

// Make replaces the folder out by the release of a version, such as "1.2.0", of the
// project in the folder root. It fails where CHANGELOG.md has no entry for the version,
// and where the checkout is not, unchanged, what the tag v1.2.0 names: the commands take
// their version from there.
func Make(root, out, version string, platforms ...Platform) error {
	notes, err := Notes(root, version)
	if err != nil {
		return err
	}
	revision, err := tagged(root, version)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	m := &maker{root, out, version}
	wasm, err := m.image(revision)
	if err != nil {
		return err
	}
	schema, err := os.ReadFile(filepath.Join(root, "envoy", "configuration.schema.json"))
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return err
	}
	shared := []file{{"LICENSE", license, 0o644}, {"callonce.wasm", wasm, 0o644}, {"configuration.schema.json", schema, 0o644}}
	for _, p := range platforms {
		if err := m.commands(p, shared); err != nil {
			return err
		}
	}
	if err := m.manifests(); err != nil {
		return err
	}
	for name, text := range map[string][]byte{"callonce.wasm": wasm, "configuration.schema.json": schema, "NOTES.md": []byte(notes)} {
		if err := os.WriteFile(filepath.Join(out, name), text, 0o644); err != nil {
			return err
		}
	}
	return checksums(out)
}

var wanted = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// Notes is what CHANGELOG.md says of a version: what stands below its heading, which must
// be a list at least.
func Notes(root, version string) (string, error) {
	if !wanted.MatchString(version) {
		return "", fmt.Errorf("VERSION: want one such as 1.2.0, got %q", version)
	}
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	for section := range strings.SplitSeq("\n"+string(text), "\n## ") {
		heading, entry, _ := strings.Cut(section, "\n")
		if name, _, _ := strings.Cut(heading, " "); name != version {
			continue
		}
		if entry = strings.TrimSpace(entry); !strings.Contains("\n"+entry, "\n- ") {
			return "", fmt.Errorf("CHANGELOG.md: the entry of %s says nothing", version)
		}
		return entry + "\n", nil
	}
	return "", fmt.Errorf("CHANGELOG.md: want an entry \"## %s\"; what is unreleased gets that heading", version)
}

// tagged is the commit of the version's tag, which must be what the folder holds.
func tagged(root, version string) (revision string, err error) {
	status, err := git(root, "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if status != "" {
		return "", fmt.Errorf("want a checkout without changes, found\n%s", status)
	}
	revision, err = git(root, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	if at, err := git(root, "rev-parse", "-q", "--verify", "refs/tags/v"+version+"^{commit}"); err != nil || at != revision {
		return "", fmt.Errorf("want the tag v%s at this commit: git tag v%[1]s", version)
	}
	return revision, nil
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

type maker struct{ root, out, version string }

func (m *maker) name(rest string) string {
	return filepath.Join(m.out, "callonce-"+m.version+"-"+rest)
}

// image writes the image's layout as an archive, with its documents beside it.
func (m *maker) image(revision string) (wasm []byte, err error) {
	wasm, goVersion, err := image.Build(m.root)
	if err != nil {
		return nil, err
	}
	b, err := image.Pack(wasm, image.Release{Version: m.version, Revision: revision, Go: goVersion})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "callonce-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := b.Write(filepath.Join(dir, "layout")); err != nil {
		return nil, err
	}
	all, err := folder(filepath.Join(dir, "layout"), "")
	if err != nil {
		return nil, err
	}
	if err := pack(m.name("image.tar"), all); err != nil {
		return nil, err
	}
	digest, err := b.Digest()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(m.name("image.digest"), []byte(digest.String()+"\n"), 0o644); err != nil {
		return nil, err
	}
	for from, to := range map[string]string{"sbom.spdx.json": "image.spdx.json", "provenance.intoto.json": "image.intoto.json"} {
		if err := os.Rename(filepath.Join(dir, from), m.name(to)); err != nil {
			return nil, err
		}
	}
	return wasm, nil
}

// commands writes the archive of a platform, and the list of what its programs hold.
func (m *maker) commands(p Platform, shared []file) error {
	dir, err := os.MkdirTemp("", "callonce-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	top := "callonce-" + m.version + "-" + p.String() + "/"
	var all []file
	for _, f := range shared {
		all = append(all, file{top + f.name, f.content, f.mode})
	}
	programs := map[string][]byte{}
	for name, of := range commands {
		binary := filepath.Join(dir, name)
		// Stamped with the commit and its tag, which is what "callonce version" prints.
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", binary, of)
		cmd.Dir = m.root
		cmd.Env = append(os.Environ(), "GOOS="+p.OS, "GOARCH="+p.Arch, "CGO_ENABLED=0", "GOENV=off", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s for %s: %w\n%s", name, p, err, text)
		}
		if programs[name], err = os.ReadFile(binary); err != nil {
			return err
		}
		all = append(all, file{top + name, programs[name], 0o755})
	}
	list, err := image.ProgramsSBOM(m.version, p.String(), programs)
	if err != nil {
		return err
	}
	if err := os.WriteFile(m.name(p.String()+".spdx.json"), append(list, '\n'), 0o644); err != nil {
		return err
	}
	return pack(m.name(p.String()+".tar.gz"), all)
}

// manifests packs what lies below envoy/: configurations, manifests, schema.
func (m *maker) manifests() error {
	all, err := folder(filepath.Join(m.root, "envoy"), "callonce-"+m.version+"-manifests/")
	if err != nil {
		return err
	}
	return pack(m.name("manifests.tar.gz"), all)
}

// checksums writes SHA256SUMS, as sha256sum -c reads it.
func checksums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, e := range entries { // by name
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		fmt.Fprintf(&lines, "%s  %s\n", hex.EncodeToString(sum[:]), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(lines.String()), 0o644)
}

// folder reads all files below dir, under names that begin with prefix.
func folder(dir, prefix string) (all []file, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return errors.New(path + ": want files and folders alone")
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 { // a script
			mode = 0o755
		}
		all = append(all, file{prefix + filepath.ToSlash(name), text, mode})
		return nil
	})
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return all, err
}
