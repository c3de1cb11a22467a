package tools

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Promtool returns the path of Prometheus' promtool: the one that the environment
// variable PROMTOOL names, else the version that the module e2e/promtool pins, built
// when it is not there yet (some minutes), without the service discoveries that nothing
// here configures.
func Promtool() (string, error) {
	if named := os.Getenv("PROMTOOL"); named != "" {
		return binaryNamed("PROMTOOL", named)
	}
	return promtool()
}

var promtool = sync.OnceValues(func() (string, error) {
	module, err := path("promtool")
	if err != nil {
		return "", err
	}
	mod, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return "", err
	}
	sum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return "", err
	}
	dir, err := installedWithin(buildTimeout, "promtool", slices.Concat(mod, sum), func(ctx context.Context, dir string) error {
		return run(ctx, module, "go", "build", "-tags", "remove_all_sd", "-trimpath", "-ldflags=-s -w", "-o", dir+string(filepath.Separator), "tool")
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "promtool"), nil
})
