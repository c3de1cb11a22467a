package tools

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// script puts a program of that name into a folder which is all of the path.
func script(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// rustPinned makes a checkout that wants Rust 1.2.3, and a folder for programs.
func rustPinned(t *testing.T) (root, bin string) {
	t.Helper()
	checkout(t)
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "e2e", "rust.version"), []byte("1.2.3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return root, t.TempDir()
}

func TestNoRust(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	script(t, bin, "cargo", "exit 0")
	script(t, bin, "rustc", "echo "+bin+"/none") // a compiler without the target's libraries
	if hasRustTarget() {
		t.Error("want no target where its folder is missing")
	}
	if got, err := rustCompiler(); !errors.Is(err, ErrNoRust) {
		t.Errorf("want ErrNoRust, got %v, %v", got, err)
	}
}

// A machine whose rustup may download nothing has no Rust: that fails no test of ours.
func TestRustupRefused(t *testing.T) {
	_, bin := rustPinned(t)
	script(t, bin, "rustup", "echo no route >&2; exit 1")
	if got, err := rustBy(filepath.Join(bin, "rustup")); !errors.Is(err, ErrNoRust) || !strings.Contains(err.Error(), "no route") {
		t.Errorf("want ErrNoRust and rustup's own words, got %v, %v", got, err)
	}
}

// A toolchain that rustup installs lies in a home of its own, pinned, and is the one that is used.
func TestRustByRustup(t *testing.T) {
	root, bin := rustPinned(t)
	script(t, bin, "rustup", `mkdir -p $RUSTUP_HOME/toolchains/$3-here/bin && : > $RUSTUP_HOME/toolchains/$3-here/bin/cargo && echo "$@" > $RUSTUP_HOME/asked`)
	rust, err := rustBy(filepath.Join(bin, "rustup"))
	if err != nil {
		t.Fatal(err)
	}
	home := strings.TrimSuffix(rust.Cargo, "/toolchains/1.2.3-here/bin/cargo")
	if !strings.HasPrefix(home, filepath.Join(root, "e2e", ".tools", "rust-1.2.3-")) {
		t.Errorf("want cargo in e2e/.tools, got %s", rust.Cargo)
	}
	if asked, _ := os.ReadFile(filepath.Join(home, "asked")); !strings.Contains(string(asked), RustTarget) {
		t.Errorf("want rustup asked for the target, it got %q", asked)
	}
	want := "RUSTC=" + filepath.Dir(rust.Cargo) + "/rustc RUSTUP_HOME=" + home + " RUSTUP_TOOLCHAIN=1.2.3-here"
	if got := strings.Join(rust.Env, " "); got != want {
		t.Errorf("environment: want %s, got %s", want, got)
	}
}
