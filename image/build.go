package image

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// flags and environment are all that the bytes of the module hang on beside the source
// and the Go release. -buildvcs=false, since a checkout and an archive of the same source
// must make the same module; GOENV=off, since what "go env -w" has set must not count.
var (
	flags       = []string{"-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-ldflags=-s -w"}
	environment = []string{"GOOS=wasip1", "GOARCH=wasm", "GOWASM=", "GOENV=off", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "CGO_ENABLED=0", "GOWORK=off"}
)

// Build compiles the filter of the project in the folder root, and says with which Go
// release.
func Build(root string) (wasm []byte, goVersion string, err error) {
	dir, err := os.MkdirTemp("", "callonce-image-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, file)
	if _, err := run(root, append(append([]string{"build", "-o", file}, flags...), "./plugin")...); err != nil {
		return nil, "", err
	}
	if goVersion, err = run(root, "env", "GOVERSION"); err != nil {
		return nil, "", err
	}
	wasm, err = os.ReadFile(file)
	return wasm, goVersion, err
}

func run(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), environment...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}
