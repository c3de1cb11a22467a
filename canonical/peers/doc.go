// Package peers measures the canonical form beside what others have published in Go, on the same texts and in one run:
//
//	go test -C canonical/peers -bench . -benchmem
//
// The peers are implementations of RFC 8785; that of go-json-experiment is what encoding/json/v2 is made of. It must not know more of
// package canonical than its users do.
package peers
