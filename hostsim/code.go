package hostsim

import (
	"context"
	"errors"

	"github.com/callonce/callonce/hostsim/internal/wasm"
)

// Code is a compiled module, from which the VMs of one host or of many are instantiated. Safe for concurrent use.
type Code struct{ code *wasm.Code }

// Compile compiles c.Wasm, with the cache and the limit of memory that c names, for Config.Code. It refuses early, and by name, what
// would otherwise surface as an odd failure of the first request. A host that gets no Code does this by itself.
func Compile(ctx context.Context, c Config) (*Code, error) {
	c.setDefaults()
	if len(c.Wasm) == 0 {
		return nil, errors.New("no module: Config.Wasm is empty")
	}
	code, err := wasm.Compile(ctx, c.Wasm, wasm.Options{CacheDir: c.CacheDir, MemoryLimit: c.MemoryLimit})
	if err != nil {
		return nil, err
	}
	return &Code{code}, nil
}

// Close frees the code. No host may use it any more.
func (m *Code) Close(ctx context.Context) error { return m.code.Close(ctx) }
