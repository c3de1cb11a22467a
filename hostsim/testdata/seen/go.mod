// A filter for tests. A module of its own: hostsim needs no SDK, and go mod tidy does not look below testdata.
module seen

go 1.26.0

require github.com/proxy-wasm/proxy-wasm-go-sdk v0.0.0-20260105142703-44c7d5847745
