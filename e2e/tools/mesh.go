package tools

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// buildTimeout bounds the build of a control plane, of which nothing is compiled yet: on
// one busy core ten minutes and more.
const buildTimeout = 2 * time.Hour

// Bootstrap is a file beside Istio's programs.
const Bootstrap = "envoy_bootstrap.json"

// Mesh returns the folder with the programs of a mesh, "istio" or "gateway": those that
// the module mesh/istio or mesh/gateway names as its tools, built when what pins them has
// changed.
func Mesh(name string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	module := filepath.Join(root, "mesh", name)
	mod, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return "", err
	}
	sum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return "", err
	}
	return installedWithin(buildTimeout, name, slices.Concat(mod, sum), func(ctx context.Context, dir string) error {
		if err := run(ctx, module, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir+string(filepath.Separator), "tool"); err != nil {
			return err
		}
		if name != "istio" {
			return nil
		}
		// What pilot-agent makes Envoy's bootstrap of comes with the module, and not in the program.
		source, err := exec.CommandContext(ctx, "go", "list", "-C", module, "-m", "-f", "{{.Dir}}", "istio.io/istio").Output()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(source)), "tools", "packaging", "common", Bootstrap))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, Bootstrap), text, 0o644)
	})
}
