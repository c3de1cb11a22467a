// Command plugin is the callonce filter for a proxy-wasm host (Envoy, Istio,
// hostsim), built with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared
package main

// What the host calls is exported there.
import _ "github.com/callonce/callonce/plugin/internal/abi"

// main never runs: a proxy-wasm host calls _initialize.
func main() {}
