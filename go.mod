module github.com/callonce/callonce

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/gowebpki/jcs v1.0.2
	github.com/proxy-wasm/proxy-wasm-go-sdk v0.0.0-20260105142703-44c7d5847745
	github.com/tetratelabs/wazero v1.12.0
	github.com/tidwall/gjson v1.20.3
	golang.org/x/net v0.62.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.3.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
