package wasm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/callonce/callonce/hostsim/internal/abi"
)

const pageSize = 64 << 10

// Code is a compiled module, from which VMs are instantiated. Safe for concurrent use.
type Code struct {
	runtime  wazero.Runtime
	cache    wazero.CompilationCache
	compiled wazero.CompiledModule
}

// Options are what a module is compiled with.
type Options struct {
	// CacheDir keeps compiled code between processes; "" compiles anew.
	CacheDir string
	// MemoryLimit bounds the memory of one VM in bytes.
	MemoryLimit int64
}

// Compile refuses early, and by name, what would otherwise surface as an odd failure of the first request.
func Compile(ctx context.Context, code []byte, o Options) (_ *Code, err error) {
	m := &Code{}
	rc := wazero.NewRuntimeConfigCompiler().WithMemoryLimitPages(uint32(o.MemoryLimit / pageSize)).WithCloseOnContextDone(false)
	if o.CacheDir != "" {
		if m.cache, err = wazero.NewCompilationCacheWithDir(o.CacheDir); err != nil {
			return nil, fmt.Errorf("compilation cache: %w", err)
		}
		rc = rc.WithCompilationCache(m.cache)
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, rc)
	defer func() {
		if err != nil {
			m.Close(ctx)
		}
	}()
	known, err := abi.Instantiate(ctx, m.runtime)
	if err != nil {
		return nil, fmt.Errorf("host functions: %w", err)
	}
	ctx = experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0))
	if m.compiled, err = m.runtime.CompileModule(ctx, code); err != nil {
		return nil, fmt.Errorf("compile module: %w", err)
	}
	return m, errors.Join(checkImports(m.compiled, known), checkExports(m.compiled))
}

// Close frees the code. No VM may run it any more.
func (m *Code) Close(ctx context.Context) error {
	err := m.runtime.Close(ctx)
	if m.cache != nil {
		err = errors.Join(err, m.cache.Close(ctx))
	}
	return err
}

func checkImports(m wazero.CompiledModule, known map[string]bool) error {
	var unknown []string
	for _, f := range m.ImportedFunctions() {
		mod, name, _ := f.Import()
		if full := mod + "." + name; !known[full] {
			unknown = append(unknown, full)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return fmt.Errorf("the module imports functions that a proxy-wasm host does not have: %s", strings.Join(slices.Compact(unknown), ", "))
}

func checkExports(m wazero.CompiledModule) error {
	exports := m.ExportedFunctions()
	var errs []error
	if exports["proxy_abi_version_0_2_0"] == nil && exports["proxy_abi_version_0_2_1"] == nil {
		found := "none"
		for name := range exports {
			if strings.HasPrefix(name, "proxy_abi_version_") {
				found = strings.TrimPrefix(name, "proxy_abi_version_")
			}
		}
		errs = append(errs, fmt.Errorf("the module must export proxy_abi_version_0_2_0 or proxy_abi_version_0_2_1 (found: %s)", found))
	}
	if exports["_initialize"] == nil {
		hint := ""
		if exports["_start"] != nil {
			hint = "; it exports _start, so it is a command that runs once and ends (a Go module needs -buildmode=c-shared)"
		}
		errs = append(errs, fmt.Errorf("the module must export _initialize%s", hint))
	}
	if exports["malloc"] == nil && exports["proxy_on_memory_allocate"] == nil {
		errs = append(errs, errors.New("the module must export malloc or proxy_on_memory_allocate"))
	}
	return errors.Join(errs...)
}
