// Command hostsim runs a proxy-wasm filter without Envoy: as a real reverse proxy in front of a server, or just long enough to
// check a configuration.
package main

import (
	"runtime"
	"runtime/debug"

	"github.com/callonce/callonce/hostsim/serve"
)

func main() {
	(&serve.Command{Name: "hostsim", Version: version}).Main()
}

// version is what the go command has stamped into the build: a tag, or the revision with its time.
func version() string {
	v := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	return v + " " + runtime.Version()
}
