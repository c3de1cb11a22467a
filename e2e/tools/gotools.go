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

// Jq returns the path of a jq: gojq, at the version that the module e2e/gojq pins, built
// when it is not there yet.
func Jq() (string, error) { return gojq() }

// Etcdctl returns the path of etcd's etcdctl, at the version that the module e2e/etcdctl
// pins, built when it is not there yet.
func Etcdctl() (string, error) { return etcdctl() }

var (
	promtool = sync.OnceValues(func() (string, error) { return goTool("promtool", "-tags", "remove_all_sd") })
	gojq     = sync.OnceValues(func() (string, error) { return goTool("gojq") })
	etcdctl  = sync.OnceValues(func() (string, error) { return goTool("etcdctl") })
)

// goTool builds the tool that the module of its name below e2e pins.
func goTool(name string, flags ...string) (string, error) {
	module, err := path(name)
	if err != nil {
		return "", err
	}
	var pins []byte
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(module, file))
		if err != nil {
			return "", err
		}
		pins = slices.Concat(pins, text)
	}
	dir, err := installedWithin(buildTimeout, name, pins, func(ctx context.Context, dir string) error {
		args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}, flags...)
		return run(ctx, module, "go", append(args, "tool")...)
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, name), nil
}
