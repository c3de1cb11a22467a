package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An Envoy on the path is not taken: what is tested is the pinned one.
func TestEnvoyOnThePathIsLeftAlone(t *testing.T) {
	checkout(t)
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	t.Setenv("ENVOY", "")
	script(t, bin, "envoy", "exit 0")
	if got, err := Envoy(); err == nil {
		t.Errorf("want none where nothing can be installed, got %s", got)
	}
	// One that is named is.
	t.Setenv("ENVOY", filepath.Join(bin, "envoy"))
	if got, err := Envoy(); err != nil || got != filepath.Join(bin, "envoy") {
		t.Errorf("want the one that is named, got %q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(bin, "envoy")); err != nil {
		t.Fatal(err)
	}
}

// What is installed is what was hashed: a pin without hashes is none, and those in the repository have them.
func TestEnvoysArePinnedByHash(t *testing.T) {
	for _, bad := range []string{"", "1.0.0\n", "1.0.0\nmd5:1\n"} {
		if v, r, err := envoyPin(bad); err == nil {
			t.Errorf("%q: taken as %q, %q", bad, v, r)
		}
	}
	all, err := Envoys()
	if err != nil || len(all) < 5 {
		t.Fatalf("%v: %v", all, err)
	}
	for i := range all[1:] {
		if all[i].Version >= all[i+1].Version {
			t.Errorf("want the oldest first, got %s before %s", all[i].Version, all[i+1].Version)
		}
	}
}

// Every pin of a Python package has the hashes of its wheels: python3 hashes.py writes them.
func TestRequirementsHaveHashes(t *testing.T) {
	files, err := filepath.Glob("requirements*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
			if strings.Contains(line, "==") && !strings.Contains(line, "--hash=sha256:") {
				t.Errorf("%s: no hash of %s", file, line)
			}
		}
	}
}
