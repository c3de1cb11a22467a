package tools

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func packed(t *testing.T, name string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: 4}), func() error { _, err := w.Write([]byte("text")); return err }(), w.Close()); err != nil {
		t.Fatal(err)
	}
	return &b
}

// What a package's archive names lies below the folder, or is refused.
func TestUntar(t *testing.T) {
	dir := t.TempDir()
	if err := untar(packed(t, "lib/thing.so"), dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "lib", "thing.so")); string(got) != "text" {
		t.Errorf("want the file, got %q, %v", got, err)
	}
	inside := filepath.Join(dir, "inside")
	if err := untar(packed(t, "../outside"), inside); err == nil || !strings.Contains(err.Error(), "../outside") {
		t.Errorf("want a refusal that names the file, got %v", err)
	}
	if exists(filepath.Join(dir, "outside")) {
		t.Error("a file lies outside of its folder")
	}
}

// A browser and a promtool of one's own are taken as named, or nothing is.
func TestNamedPrograms(t *testing.T) {
	t.Setenv("CHROMIUM", "/no/such/chromium")
	if got, err := Chromium(); err == nil || !strings.HasPrefix(err.Error(), "CHROMIUM: ") {
		t.Errorf("want an error that names CHROMIUM, got %q, %v", got, err)
	}
	t.Setenv("PROMTOOL", "/no/such/promtool")
	if got, err := Promtool(); err == nil || !strings.HasPrefix(err.Error(), "PROMTOOL: ") {
		t.Errorf("want an error that names PROMTOOL, got %q, %v", got, err)
	}
	t.Setenv("CHROMIUM", "")
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return
	}
	if _, err := Chromium(); !errors.Is(err, ErrNoBrowser) {
		t.Errorf("want ErrNoBrowser, got %v", err)
	}
}
