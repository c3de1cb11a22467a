package hostsim

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// hostFunc is one function that the module may import from "env". All take 32-bit words but where wide says otherwise, and
// return a Status.
type hostFunc struct {
	name  string
	words int
	wide  int // 1 + the index of the one 64-bit parameter; 0 = none
	// describe fills in what hooks may want to see; nil = nothing.
	describe func(*vm, []uint64, *Call)
	run      func(*vm, []uint64, *Call) Status
}

var errCrash = errors.New("crashed by a test hook")

// hostFuncs is everything that proxy-wasm-cpp-host offers to ABI 0.2.x, whether the Go SDK imports it or not.
func hostFuncs() []hostFunc {
	var all []hostFunc
	for _, group := range [][]hostFunc{sharedFuncs, headerFuncs, bodyFuncs, streamFuncs, propertyFuncs, metricFuncs, calloutFuncs, grpcFuncs} {
		all = append(all, group...)
	}
	return all
}

// instantiateHostModules makes "env" and WASI and returns the full names of all functions in them.
func instantiateHostModules(ctx context.Context, r wazero.Runtime) (map[string]bool, error) {
	known := map[string]bool{}
	env := r.NewHostModuleBuilder("env")
	for _, f := range hostFuncs() {
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
		functions, err := instantiateWASI(ctx, r, name)
		if err != nil {
			return nil, err
		}
		for _, f := range functions {
			known[name+"."+f] = true
		}
	}
	return known, nil
}

// entry wraps the function in the hooks of the host.
func (f hostFunc) entry() api.GoModuleFunc {
	return func(ctx context.Context, _ api.Module, stack []uint64) {
		v := ctx.Value(vmKey{}).(*vm)
		h := &v.host.config.Hooks
		if h.Before == nil && h.After == nil {
			stack[0] = uint64(f.run(v, stack, nil))
			return
		}
		c := &Call{Worker: v.number, Context: v.current.id, Function: f.name}
		if f.describe != nil {
			f.describe(v, stack, c)
		}
		verdict := Proceed()
		if h.Before != nil {
			verdict = h.Before(c)
		}
		status := verdict.status
		switch verdict.kind {
		case crash:
			panic(errCrash)
		case proceed:
			status = f.run(v, stack, c)
		}
		stack[0] = uint64(status)
		if h.After != nil {
			h.After(c, status)
		}
	}
}

// word reads the i-th argument.
func word(s []uint64, i int) uint32 { return uint32(s[i]) }

// bytesArg reads the bytes that the arguments i (pointer) and i+1 (size) describe.
func (v *vm) bytesArg(s []uint64, i int) ([]byte, bool) { return v.read(word(s, i), word(s, i+1)) }
