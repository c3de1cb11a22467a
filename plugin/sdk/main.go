// Command sdk is the filter on the proxy-wasm Go SDK, a second binding beside plugin/internal/abi. It ships nowhere: it is there so that our own
// binding has a judge. It decides nothing. Built by make build BINDING=sdk.
//
// What the SDK cannot do is refused at start: it has no gRPC calls, and drops the answer of a callout whose stream has ended.
package main

import "github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"

func init() { proxywasm.SetPluginContext(newPlugin) }

// main never runs: a proxy-wasm host calls _initialize.
func main() {}
