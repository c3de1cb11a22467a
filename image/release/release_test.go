package release_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/callonce/callonce/image/release"
)

// checkout is the project as a repository of its own, with one commit.
func checkout(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "source")
	list, err := exec.Command("git", "-C", "../..", "ls-files", "-co", "--exclude-standard", "--", "*.go", "go.mod", "go.sum", "LICENSE", "CHANGELOG.md", ".gitignore", "envoy", "image/go.version", "hostsim/*", "plugin/*", ":!*/testdata/*", ":!*_test.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(list)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(filepath.Join("../..", name))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, and not committed yet
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755)
		}
		info, err2 := os.Stat(filepath.Join("../..", name))
		if err = cmp.Or(err, err2); err == nil {
			err = os.WriteFile(filepath.Join(root, name), text, info.Mode().Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	do(t, root, "init -q")
	commit(t, root)
	return root
}

func do(t *testing.T, root, args string) {
	t.Helper()
	cmd := exec.Command("git", strings.Fields(args)...)
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", args, err, text)
	}
}

func commit(t *testing.T, root string) {
	t.Helper()
	do(t, root, "add -A")
	do(t, root, "-c user.name=x -c user.email=x@example.com commit -q -m x")
}

// entry puts a heading before what the changelog calls unreleased.
func entry(t *testing.T, root, text string) {
	t.Helper()
	file := filepath.Join(root, "CHANGELOG.md")
	old, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, bytes.Replace(old, []byte("## Unreleased\n"), []byte(text), 1), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// No release without an entry in the changelog, without its tag, or of anything but what the tag names.
func TestRefused(t *testing.T) {
	root := checkout(t)
	out := filepath.Join(t.TempDir(), "release")
	refused := func(version, why string) {
		t.Helper()
		if err := release.Make(root, out, version); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: want %q, got %v", version, why, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: something was written", version)
		}
	}
	refused("", "VERSION: want one such as")
	refused("v1.2.3", "VERSION: want one such as")
	refused("1.2.3", `want an entry "## 1.2.3"`)
	entry(t, root, "## Unreleased\n\n- Something\n\n## 1.2.3 (2026-01-01)\n\nNothing to tell.\n\n## 1.2.2\n\n- Old\n")
	refused("1.2.3", "says nothing")
	entry(t, root, "## Unreleased\n\n## 1.2.4\n\n- Something is new.\n")
	refused("1.2.4", "without changes")
	commit(t, root)
	refused("1.2.4", "git tag v1.2.4")
	do(t, root, "-c tag.gpgSign=false tag v1.2.4 HEAD~1")
	refused("1.2.4", "git tag v1.2.4")
}

// All that is published is there, sums are right, the command names its version, and a second making gives the same bytes.
func TestMake(t *testing.T) {
	root := checkout(t)
	entry(t, root, "## Unreleased\n\n## 1.2.3\n\n- Something is new.\n\n## 1.2.2\n\n- Old\n\n")
	commit(t, root)
	do(t, root, "-c tag.gpgSign=false tag v1.2.3")
	platforms := []release.Platform{{OS: runtime.GOOS, Arch: runtime.GOARCH}}
	if os.Getenv("CALLONCE_LONG_RUN") != "" {
		platforms = release.Platforms
	}
	out := filepath.Join(t.TempDir(), "release")
	if err := release.Make(root, out, "1.2.3", platforms...); err != nil {
		t.Fatal(err)
	}
	here := platforms[0].String()
	for _, p := range platforms {
		if p.OS == runtime.GOOS && p.Arch == runtime.GOARCH {
			here = p.String()
		}
	}
	sums := read(t, out, "SHA256SUMS")
	seen := map[string]bool{}
	for line := range strings.Lines(sums) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		seen[name] = true
		if got := sha256.Sum256([]byte(read(t, out, name))); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s: wrong sum", name)
		}
	}
	for _, name := range []string{
		"callonce.wasm", "configuration.schema.json", "NOTES.md", "callonce-1.2.3-image.tar", "callonce-1.2.3-image.digest", "callonce-1.2.3-image.spdx.json",
		"callonce-1.2.3-image.intoto.json", "callonce-1.2.3-manifests.tar.gz", "callonce-1.2.3-" + here + ".tar.gz", "callonce-1.2.3-" + here + ".spdx.json",
	} {
		if !seen[name] {
			t.Errorf("%s is missing in\n%s", name, sums)
		}
	}
	if notes := read(t, out, "NOTES.md"); notes != "- Something is new.\n" {
		t.Errorf("notes: %q", notes)
	}
	// The archive of this platform: the command runs, and knows its version.
	dir := t.TempDir()
	unpack(t, filepath.Join(out, "callonce-1.2.3-"+here+".tar.gz"), dir)
	top := filepath.Join(dir, "callonce-1.2.3-"+here)
	if version, err := exec.Command(filepath.Join(top, "callonce"), "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(version), "callonce v1.2.3 (") || strings.Contains(string(version), "modified") {
		t.Errorf("version: %q, %v", version, err)
	}
	if text, err := exec.Command(filepath.Join(top, "hostsim"), "help").CombinedOutput(); err != nil {
		t.Errorf("hostsim: %v: %s", err, text)
	}
	if read(t, top, "callonce.wasm") != read(t, out, "callonce.wasm") || read(t, top, "LICENSE") == "" {
		t.Error("the archive lacks the module or the license")
	}
	// Manifests are what kustomize finds them as, and a script runs.
	unpack(t, filepath.Join(out, "callonce-1.2.3-manifests.tar.gz"), dir)
	script, err := os.Stat(filepath.Join(dir, "callonce-1.2.3-manifests", "drain.sh"))
	if err != nil || script.Mode()&0o111 == 0 {
		t.Errorf("drain.sh: want it to run, got %v, %v", script, err)
	}
	if plain, err := os.Stat(filepath.Join(dir, "callonce-1.2.3-manifests", "istio", "gateway", "callonce.yaml")); err != nil || plain.Mode()&0o111 != 0 {
		t.Errorf("istio/gateway/callonce.yaml: got %v, %v", plain, err)
	}
	// The image is the one whose digest is told.
	unpack(t, filepath.Join(out, "callonce-1.2.3-image.tar"), filepath.Join(dir, "layout"))
	path, err := layout.FromPath(filepath.Join(dir, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || manifest.Manifests[0].Digest.String()+"\n" != read(t, out, "callonce-1.2.3-image.digest") {
		t.Errorf("image: %v, %v", manifest, err)
	}
	for _, name := range []string{"callonce-1.2.3-" + here + ".spdx.json", "callonce-1.2.3-image.spdx.json"} {
		var list struct {
			Packages []struct{ Name, VersionInfo string }
		}
		if err := json.Unmarshal([]byte(read(t, out, name)), &list); err != nil || len(list.Packages) < 2 || list.Packages[0].VersionInfo != "1.2.3" {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
	again := filepath.Join(t.TempDir(), "again")
	if err := release.Make(root, again, "1.2.3", platforms...); err != nil {
		t.Fatal(err)
	}
	if other := read(t, again, "SHA256SUMS"); other != sums {
		t.Errorf("want the same bytes, got\n%s\n%s", sums, other)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func unpack(t *testing.T, archive, into string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(archive, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	for a := tar.NewReader(r); ; {
		h, err := a.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(into, h.Name)
		text, err := io.ReadAll(a)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, text, h.FileInfo().Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
