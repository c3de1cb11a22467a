// The canonical form beside others' in Go, pinned: a module of its own, so that nobody who uses callonce gets their dependencies.
module github.com/callonce/callonce/canonical/peers

go 1.26.0

replace github.com/callonce/callonce => ../..

require (
	github.com/callonce/callonce v0.0.0
	github.com/cyberphone/json-canonicalization v0.0.0-20241213102144-19d51d7fe467
	github.com/go-json-experiment/json v1.27.2
	github.com/gowebpki/jcs v1.0.2
)
