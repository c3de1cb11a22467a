// Command hostsim runs a proxy-wasm filter without Envoy: as a real reverse proxy in front of a server, or just long enough to
// check a configuration.
package main

import "github.com/callonce/callonce/hostsim/serve"

func main() {
	(&serve.Command{Name: "hostsim"}).Main()
}
