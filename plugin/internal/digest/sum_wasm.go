package digest

// Sum is the SHA-256 of p.
func Sum(p []byte) [Size]byte { return sum(p) }
