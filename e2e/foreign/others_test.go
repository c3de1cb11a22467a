package foreign

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/tools"
	"github.com/callonce/callonce/hostsim"
)

// A filter in AssemblyScript, on the bare ABI.
func TestAssemblyScript(t *testing.T) {
	asc, err := tools.AssemblyScript()
	if err != nil {
		t.Fatal(err)
	}
	wasm := filepath.Join(t.TempDir(), "filter.wasm")
	compile(t, "testdata/assemblyscript", nil, append(asc, "filter.ts", "--runtime", "stub", "--exportStart", "_initialize", "--use", "abort=", "-O", "-o", wasm)...)
	tr := try(t, read(t, wasm), func(c *hostsim.Config) { c.PluginConfig = []byte("four") })
	tr.expect("POST", "/ok", "x", nil, 200, "hello", "x-by", "assemblyscript")
	tr.refusesByItself("no", "assemblyscript")
	if n := tr.Host.Metrics()["requests_total"]; n != 2 {
		t.Errorf("requests_total: want 2, got %d", n)
	}
	tr.says("worker=0 info: configured with 4 bytes")
}

// A filter in C, with WASI's libc.
func TestC(t *testing.T) {
	cc, err := tools.CCompiler()
	if err != nil {
		t.Fatal(err)
	}
	wasm := filepath.Join(t.TempDir(), "filter.wasm")
	compile(t, "testdata/c", nil, append(slices.Clone(cc), "-mexec-model=reactor", "-Os", "-s", "-Wall", "-Werror", "-o", wasm, "filter.c")...)
	tr := try(t, read(t, wasm), func(c *hostsim.Config) { c.PluginConfig, c.Workers = []byte("x-tenant"), 2 })
	tr.expect("POST", "/ok", "x", []string{"x-tenant", "blue"}, 200, "hello", "x-by", "c", "x-calls", "1 of blue")
	tr.expect("POST", "/ok", "x", []string{"x-tenant", "blue"}, 200, "hello", "x-by", "c", "x-calls", "2 of blue")
	tr.expect("POST", "/ok", "x", []string{"x-tenant", "red"}, 200, "hello", "x-by", "c", "x-calls", "1 of red")
	tr.refusesByItself("no", "c")
	tr.says("tenants come from x-tenant") // printed, not logged
	seen := func(worker string) bool {
		return slices.ContainsFunc(tr.logged(), func(l string) bool { return strings.HasPrefix(l, worker) && strings.Contains(l, "a call of") })
	}
	if !seen("worker=0") || !seen("worker=1") {
		t.Errorf("want calls counted by both workers, got\n%s", strings.Join(tr.logged(), "\n"))
	}
}
