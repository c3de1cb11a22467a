package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// RustTarget is what filters in Rust are compiled for.
const RustTarget = "wasm32-unknown-unknown"

// Rust is a Rust compiler with the libraries of [RustTarget].
type Rust struct {
	// Cargo is the path of cargo.
	Cargo string
	// Env is what it needs in its environment, beside what is there.
	Env []string
}

// ErrNoRust says that the machine has neither a Rust compiler for wasm nor rustup, which would install one.
var ErrNoRust = errors.New("want Rust: either rustup on the path (the version in e2e/rust.version is then installed), or a cargo and rustc that have the target " + RustTarget)

// RustCompiler returns the machine's own Rust where that has the target. Else it is the
// version in e2e/rust.version, installed by rustup when it is not there yet; without
// rustup, or where it cannot install, it is ErrNoRust.
func RustCompiler() (Rust, error) { return rustCompiler() }

var rustCompiler = sync.OnceValues(func() (Rust, error) {
	if cargo, err := exec.LookPath("cargo"); err == nil && hasRustTarget() {
		return Rust{Cargo: cargo}, nil
	}
	rustup, err := exec.LookPath("rustup")
	if err != nil {
		return Rust{}, ErrNoRust
	}
	return rustBy(rustup)
})

// hasRustTarget asks the compiler where the target's libraries would be.
func hasRustTarget() bool {
	out, err := exec.Command("rustc", "--print", "target-libdir", "--target", RustTarget).Output()
	return err == nil && exists(strings.TrimSpace(string(out)))
}

// rustBy installs a toolchain into a rustup home of its own: the user's stays as it is.
func rustBy(rustup string) (Rust, error) {
	file, err := path("rust.version")
	if err != nil {
		return Rust{}, err
	}
	pins, err := os.ReadFile(file)
	if err != nil {
		return Rust{}, err
	}
	version := strings.TrimSpace(string(pins))
	dir, err := installed("rust-"+version, pins, func(ctx context.Context, dir string) error {
		return run(ctx, dir, "env", "RUSTUP_HOME="+dir, rustup, "toolchain", "install", version, "--profile", "minimal", "--target", RustTarget, "--no-self-update")
	})
	if err != nil {
		// Rustup's own downloads come from no package registry: a machine may well refuse them.
		return Rust{}, errors.Join(ErrNoRust, err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "toolchains", "*", "bin", "cargo"))
	if err != nil || len(found) != 1 {
		return Rust{}, fmt.Errorf("want one cargo in %s/toolchains, found %q (%v)", dir, found, err)
	}
	bin := filepath.Dir(found[0])
	// RUSTUP_TOOLCHAIN too, lest a rustc on the path be a proxy that goes by another.
	return Rust{Cargo: found[0], Env: []string{"RUSTC=" + filepath.Join(bin, "rustc"), "RUSTUP_HOME=" + dir, "RUSTUP_TOOLCHAIN=" + filepath.Base(filepath.Dir(bin))}}, nil
}

// CCompiler returns the beginning of a command line that compiles C to WebAssembly with
// WASI's libc, at the version of tools/requirements-c.txt; it is installed when it is
// not there yet.
func CCompiler() ([]string, error) { return cCompiler() }

var cCompiler = sync.OnceValues(func() ([]string, error) {
	python, err := pythonWith("zig", "requirements-c.txt")
	if err != nil {
		return nil, err
	}
	// The compiled libc is kept with the compiler.
	cache := "ZIG_GLOBAL_CACHE_DIR=" + filepath.Join(filepath.Dir(filepath.Dir(python)), "cache")
	return []string{"env", cache, python, "-m", "ziglang", "cc", "--target=wasm32-wasi"}, nil
})

// AssemblyScript returns the beginning of a command line that compiles AssemblyScript,
// at the version of tools/package-lock.json; see [NodeTools].
func AssemblyScript() ([]string, error) {
	node, err := NodeTools()
	if err != nil {
		return nil, err
	}
	return []string{node.Binary, filepath.Join(node.Modules, "assemblyscript", "bin", "asc.js")}, nil
}

// TypeScript returns the beginning of a command line that compiles TypeScript for
// Node.js, at the versions of tools/package-lock.json; see [NodeTools].
func TypeScript() ([]string, error) {
	node, err := NodeTools()
	if err != nil {
		return nil, err
	}
	types := filepath.Join(node.Modules, "@types")
	return []string{node.Binary, filepath.Join(node.Modules, "typescript", "bin", "tsc"), "--typeRoots", types}, nil
}
