// The filter on the Go SDK: a module of its own, so that the one that ships knows no SDK.
module github.com/callonce/callonce/plugin/sdk

go 1.26.0

require (
	github.com/callonce/callonce v0.0.0
	github.com/proxy-wasm/proxy-wasm-go-sdk v0.0.0-20260105142703-44c7d5847745
)

replace github.com/callonce/callonce => ../..
