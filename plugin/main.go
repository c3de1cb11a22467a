// Command plugin is the callonce filter, compiled to wasm for a proxy-wasm host.
package main

import "github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm/types"

var _ types.VMContext

func main() {}
