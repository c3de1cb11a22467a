package foreign

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/callonce/callonce/e2e/tools"
	"github.com/callonce/callonce/hostsim"
)

func rust(t *testing.T) tools.Rust {
	t.Helper()
	compiler, err := tools.RustCompiler()
	if errors.Is(err, tools.ErrNoRust) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return compiler
}

// A filter written with the crate proxy-wasm.
func TestRust(t *testing.T) {
	compiler := rust(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/rust")); err != nil {
		t.Fatal(err)
	}
	compile(t, dir, compiler.Env, compiler.Cargo, "build", "--quiet", "--release", "--target", tools.RustTarget)
	code := read(t, filepath.Join(dir, "target", tools.RustTarget, "release", "greeter.wasm"))
	tr := try(t, code, func(c *hostsim.Config) { c.PluginConfig = []byte("salve") })
	tr.expect("POST", "/ok", "x", nil, 200, "HELLO", "x-count", "1")
	if got := tr.reached("/ok"); len(got) != 1 || got[0].header.Get("x-greeting") != "salve" {
		t.Errorf("want one request with x-greeting: salve at the server, got %v", got)
	}
	tr.refusesByItself("NO", "rust")                                 // its own body is turned into capitals too
	tr.expect("POST", "/ok", "x", nil, 200, "HELLO", "x-count", "3") // the module's own response counts too
}

// The examples of the Rust SDK, as they are.
func TestRustSDKExamples(t *testing.T) {
	compiler := rust(t)
	examples := rustSDK(t, compiler)
	compile(t, examples, compiler.Env, compiler.Cargo, "build", "--quiet", "--locked", "--release", "--target", tools.RustTarget, "--examples")
	for _, e := range []struct {
		name, config, answer string // the last of the module's own calls
		shows                func(*trial)
	}{
		{"hello_world", "", "", func(tr *trial) {
			tr.says("Hello, World!")
			tr.says("there is no lucky number")
		}},
		{"http_headers", "", "", func(tr *trial) {
			tr.expect("GET", "/hello", "", nil, 200, "Hello, World!\n", "hello", "World", "powered-by", "proxy-wasm")
			tr.expect("GET", "/other", "", []string{"x-of-mine", "seen"}, 200, "hello")
			tr.says("-> x-of-mine: seen")
			tr.says("<- :status: 200")
			tr.says("completed.")
		}},
		{"http_body", "", "", func(tr *trial) {
			tr.expect("GET", "/secret", "", nil, 200, "Original message body (8 bytes) redacted.")
			tr.expect("GET", "/other", "", nil, 200, "hello")
		}},
		{"http_config", "of my own", "", func(tr *trial) {
			tr.expect("GET", "/", "", nil, 200, "hello", "custom-header", "of my own")
		}},
		{"http_auth_random", "", "\x02", func(tr *trial) {
			tr.expect("POST", "/", "x", nil, 200, "hello", "powered-by", "proxy-wasm")
		}},
		{"http_auth_random", "", "\x03", func(tr *trial) {
			tr.expect("POST", "/", "x", nil, 403, "Access forbidden.\n", "powered-by", "proxy-wasm")
			tr.says("Access forbidden.")
			if len(tr.reached("/")) != 0 {
				tr.t.Error("what was forbidden reached the server")
			}
		}},
	} {
		t.Run(e.name, func(t *testing.T) {
			code := read(t, filepath.Join(examples, "target", tools.RustTarget, "release", "examples", e.name+".wasm"))
			e.shows(try(t, code, func(c *hostsim.Config) {
				c.PluginConfig = []byte(e.config)
				c.HoldHeaders = false // they take it that a pause in the headers holds the body back too
				c.Clusters = map[string]string{"httpbin": cluster(t, e.answer)}
			}))
		})
	}
}

// rustSDK makes a copy of the SDK's crate, which cargo fetches and checks, and returns its folder.
func rustSDK(t *testing.T, compiler tools.Rust) string {
	t.Helper()
	pin := t.TempDir()
	if err := os.CopyFS(pin, os.DirFS("testdata/rust-sdk")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), compiler.Cargo, "metadata", "--format-version", "1", "--quiet")
	cmd.Dir, cmd.Env, cmd.Stderr = pin, append(os.Environ(), compiler.Env...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	var metadata struct {
		Packages []struct {
			Name     string
			Manifest string `json:"manifest_path"`
		}
	}
	if err := json.Unmarshal(out, &metadata); err != nil {
		t.Fatal(err)
	}
	for _, p := range metadata.Packages {
		if p.Name == "proxy-wasm" {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Dir(p.Manifest))); err != nil {
				t.Fatal(err)
			}
			return dir
		}
	}
	t.Fatalf("want the package proxy-wasm among what cargo fetched, got %v", metadata.Packages)
	return ""
}
