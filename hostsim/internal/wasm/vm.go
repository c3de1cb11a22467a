package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/callonce/callonce/hostsim/internal/abi"
)

// VM is one instance of a module. It is not safe for concurrent use.
type VM struct {
	module  api.Module
	guest   abi.Guest
	exports map[string]api.Function
}

// Start makes a VM whose imports ask p. Nothing of the module runs yet: _initialize is the caller's to call.
func (m *Code) Start(p abi.Proxy) (*VM, error) {
	v := &VM{guest: abi.Guest{Proxy: p}, exports: map[string]api.Function{}}
	v.guest.Context = abi.With(context.Background(), &v.guest)
	var err error
	v.module, err = m.runtime.InstantiateModule(v.guest.Context, m.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, fmt.Errorf("instantiate: %w", err)
	}
	if v.guest.Memory = v.module.Memory(); v.guest.Memory == nil {
		return nil, errors.New("instantiate: the module exports no memory")
	}
	for name := range v.module.ExportedFunctionDefinitions() {
		v.exports[name] = v.module.ExportedFunction(name)
	}
	if v.guest.Malloc = v.exports["malloc"]; v.guest.Malloc == nil {
		v.guest.Malloc = v.exports["proxy_on_memory_allocate"]
	}
	return v, nil
}

// Has says whether the module exports a function.
func (v *VM) Has(export string) bool { return v.exports[export] != nil }

// Call runs an export. One that the module lacks counts as called, with the result 0. An error ends the VM: it must not be called again.
func (v *VM) Call(export string, args ...uint64) (uint64, error) {
	f := v.exports[export]
	if f == nil {
		return 0, nil
	}
	results, err := f.Call(v.guest.Context, args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", export, err)
	}
	if len(results) == 0 {
		return 0, nil
	}
	return results[0], nil
}

// Close ends the VM without telling it.
func (v *VM) Close() { v.module.Close(v.guest.Context) }

// Size is the VM's memory in bytes: whole pages, of which it never gives one back.
func (v *VM) Size() int { return int(v.guest.Memory.Size()) }

// Save is a copy of the VM's memory. Its globals are not in it: they are at rest between two calls.
func (v *VM) Save() []byte { return bytes.Clone(v.memory()) }

// Restore writes memory that Save gave back. The VM's must have the same size still.
func (v *VM) Restore(saved []byte) {
	memory := v.memory()
	// Most pages have not changed, and reading two costs less than writing one.
	const page = 4 << 10
	for at := 0; at < len(memory); at += page {
		if now, was := memory[at:at+page], saved[at:at+page]; !bytes.Equal(now, was) {
			copy(now, was)
		}
	}
}

func (v *VM) memory() []byte {
	b, _ := v.guest.Memory.Read(0, v.guest.Memory.Size())
	return b
}
