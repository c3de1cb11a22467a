module github.com/callonce/callonce

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/gowebpki/jcs v1.0.2
	github.com/tetratelabs/wazero v1.12.0
	golang.org/x/net v0.62.0
	pgregory.net/rapid v1.3.0
)

require (
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
