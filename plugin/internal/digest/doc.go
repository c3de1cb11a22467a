// Package digest is SHA-256 (FIPS 180-4) for the path of a request. Compiled to wasm, crypto/sha256 takes a turn of two loops for each of
// a block's 64 rounds, and a jump backwards is dear there: eight rounds in a turn take some 0.6 of its time, and hashing is most of
// what a long call costs in the filter. Anywhere else Sum is crypto/sha256. What is hashed is not secret in a way that the time taken
// could tell: that depends on the length alone, as in crypto/sha256.
package digest

// Size is the length of a sum, in bytes.
const Size = 32
