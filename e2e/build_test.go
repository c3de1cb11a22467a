package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/callonce/callonce/e2e/tools"
)

// out holds what the tests build; it is removed after the last of them.
var out string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if out, err = os.MkdirTemp("", "callonce-e2e-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(out)
		return m.Run()
	}())
}

// goBuild builds a package from a folder of the project and returns the path of what
// came out. The tests build for themselves so that they never pass on what an older
// tree left in dist/.
func goBuild(name, folder, pkg string, env []string, flags ...string) (string, error) {
	root, err := tools.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(out, name)
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), pkg)...)
	cmd.Dir = filepath.Join(root, folder)
	cmd.Env = append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v in %s: %w\n%s", cmd.Args, cmd.Dir, err, text)
	}
	return path, nil
}

func goBuildPlugin(name string, flags ...string) (string, error) {
	return goBuild(name, ".", "./plugin", []string{"GOOS=wasip1", "GOARCH=wasm"}, append(flags, "-buildmode=c-shared", "-ldflags=-s -w")...)
}

func goBuildOnSDK(name string, flags ...string) (string, error) {
	return goBuild(name, "plugin/sdk", ".", []string{"GOOS=wasip1", "GOARCH=wasm"}, append(flags, "-buildmode=c-shared", "-ldflags=-s -w")...)
}

var (
	buildPlugin = sync.OnceValues(func() (string, error) { return goBuildPlugin("callonce.wasm") })
	// The same with faults to order (plugin/internal/boot/faults.go).
	buildFaulty = sync.OnceValues(func() (string, error) { return goBuildPlugin("faulty.wasm", "-tags=faults") })
	// The same with a table of a handful of buckets (plugin/internal/boot/layout_small.go).
	buildSmall = sync.OnceValues(func() (string, error) { return goBuildPlugin("small.wasm", "-tags=smalltable") })
	// The same on the Go SDK (plugin/sdk).
	buildOnSDK       = sync.OnceValues(func() (string, error) { return goBuildOnSDK("sdk.wasm") })
	buildFaultyOnSDK = sync.OnceValues(func() (string, error) { return goBuildOnSDK("sdk-faulty.wasm", "-tags=faults") })
	buildSmallOnSDK  = sync.OnceValues(func() (string, error) { return goBuildOnSDK("sdk-small.wasm", "-tags=smalltable") })

	buildCommand = sync.OnceValues(func() (string, error) {
		return goBuild("callonce", ".", "./plugin/cmd/callonce", nil)
	})
	// The official conformance server, at the version of the SDK in go.mod.
	buildEverything = sync.OnceValues(func() (string, error) {
		return goBuild("everything-server", "e2e", "github.com/modelcontextprotocol/go-sdk/conformance/everything-server", nil)
	})
	buildRun = sync.OnceValues(func() (string, error) { return goBuild("run", "e2e", "./cmd/run", nil) })
)

// must returns what a build made.
func must(t testing.TB, build func() (string, error)) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
