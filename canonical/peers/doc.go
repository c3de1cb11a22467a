// Package peers measures the canonical form beside what others have published in Go, on the same texts and in one run:
//
//	go test -C canonical/peers -bench . -benchmem
//
// The peers are the implementations of RFC 8785 that the Go module proxy has under these names; that of go-json-experiment is what encoding/json/v2
// is made of. It must not know more of ours than anybody may import.
package peers
