// Command seen is a small filter of the kind that people write: it counts requests in shared data, over all workers, and says in the
// response header x-seen which one this was.
package main

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"
	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm/types"
)

func main() {}

func init() {
	proxywasm.SetPluginContext(func(uint32) types.PluginContext { return &plugin{} })
}

type plugin struct{ types.DefaultPluginContext }

func (*plugin) NewHttpContext(uint32) types.HttpContext { return &request{} }

type request struct{ types.DefaultHttpContext }

func (*request) OnHttpResponseHeaders(int, bool) types.Action {
	if err := proxywasm.AddHttpResponseHeader("x-seen", strconv.FormatUint(next(), 10)); err != nil {
		proxywasm.LogErrorf("x-seen: %v", err)
	}
	return types.ActionContinue
}

// next tries again whenever another worker was quicker.
func next() uint64 {
	for {
		v, cas, err := proxywasm.GetSharedData("seen")
		n := uint64(1)
		switch err {
		case nil:
			n += binary.LittleEndian.Uint64(v)
		case types.ErrorStatusNotFound:
			cas = math.MaxUint32 // creates the key, and fails if another worker just has
		default:
			return 0
		}
		if proxywasm.SetSharedData("seen", binary.LittleEndian.AppendUint64(nil, n), cas) == nil {
			return n
		}
	}
}
