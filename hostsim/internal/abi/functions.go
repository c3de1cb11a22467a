package abi

import (
	"context"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// function is one that the module may import from "env". All take 32-bit words but where wide says otherwise, and return a Status.
type function struct {
	name  string
	words int
	wide  int // 1 + the index of the one 64-bit parameter; 0 = none
	// describe fills in what a watch may want to see; nil = nothing.
	describe func(*Guest, []uint64, *Arguments)
	// run has the arguments as a watch left them; nil = nobody watches.
	run func(*Guest, []uint64, *Arguments) Status
}

// functions is everything that proxy-wasm-cpp-host offers to ABI 0.2.x, whether the Go SDK imports it or not.
func functions() []function {
	var all []function
	for _, group := range [][]function{sharedFuncs, headerFuncs, bodyFuncs, streamFuncs, propertyFuncs, metricFuncs, calloutFuncs} {
		all = append(all, group...)
	}
	return all
}

// Instantiate makes "env" and WASI and returns the full names of all functions in them.
func Instantiate(ctx context.Context, r wazero.Runtime) (map[string]bool, error) {
	known := map[string]bool{}
	env := r.NewHostModuleBuilder("env")
	for _, f := range functions() {
		params := make([]api.ValueType, f.words)
		for i := range params {
			params[i] = api.ValueTypeI32
			if i+1 == f.wide {
				params[i] = api.ValueTypeI64
			}
		}
		env.NewFunctionBuilder().WithGoModuleFunction(f.entry(), params, []api.ValueType{api.ValueTypeI32}).Export(f.name)
		known["env."+f.name] = true
	}
	if _, err := env.Instantiate(ctx); err != nil {
		return nil, err
	}
	for _, name := range []string{"wasi_snapshot_preview1", "wasi_unstable"} {
		names, err := instantiateWASI(ctx, r, name)
		if err != nil {
			return nil, err
		}
		for _, f := range names {
			known[name+"."+f] = true
		}
	}
	return known, nil
}

// entry lets a watch see the function's calls.
func (f function) entry() api.GoModuleFunc {
	return func(ctx context.Context, _ api.Module, stack []uint64) {
		g := guestOf(ctx)
		w := g.Proxy.Watch()
		if w == nil {
			stack[0] = uint64(f.run(g, stack, nil))
			return
		}
		a := &Arguments{}
		if f.describe != nil {
			f.describe(g, stack, a)
		}
		status, happens := w.Before(f.name, a)
		if happens {
			g.watch = w
			status = f.run(g, stack, a)
			g.watch = nil
		}
		stack[0] = uint64(status)
		w.After(status)
	}
}
