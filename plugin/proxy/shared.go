package proxy

import (
	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"
	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm/types"
)

// sharedData is the host's shared data as the ledger's table.
type sharedData struct{}

// Get implements ledger.Table.
func (sharedData) Get(key string) ([]byte, uint32, bool, error) {
	v, cas, err := proxywasm.GetSharedData(key)
	switch err {
	case nil:
		return v, cas, true, nil
	case types.ErrorStatusNotFound:
		return nil, 0, false, nil
	default:
		return nil, 0, false, err
	}
}

// Set implements ledger.Table.
func (sharedData) Set(key string, value []byte, cas uint32) (bool, error) {
	switch err := proxywasm.SetSharedData(key, value, cas); err {
	case nil:
		return true, nil
	case types.ErrorStatusCasMismatch:
		return false, nil
	default:
		return false, err
	}
}
