// The examples of the Go SDK, from the last release that has them in its own module: they are built with the SDK's successor,
// which plain Go compiles.
module examples

go 1.26.0

require (
	github.com/proxy-wasm/proxy-wasm-go-sdk v0.0.0-20260105142703-44c7d5847745
	github.com/tetratelabs/proxy-wasm-go-sdk v0.16.0
)
