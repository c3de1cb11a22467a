// Command plugin is the callonce filter for a proxy-wasm host (Envoy, Istio,
// hostsim), built with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared
package main

import "github.com/callonce/callonce/plugin/proxy"

func init() { proxy.Register() }

// main never runs: a proxy-wasm host calls _initialize.
func main() {}
