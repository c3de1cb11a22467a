//go:build !wasm

package digest

import "crypto/sha256"

// Sum is the SHA-256 of p.
func Sum(p []byte) [Size]byte { return sha256.Sum256(p) }
