// Package digest is SHA-256 (FIPS 180-4) for the path of a request. Compiled to wasm, crypto/sha256 takes a loop of one round each, and a
// jump backwards is dear there: eight rounds in a turn take some 0.6 of its time, and hashing is most of what a long call costs the
// filter. Anywhere else Sum is crypto/sha256. As there, the time taken depends on the length alone. It must not know what is hashed.
package digest

// Size is the length of a sum, in bytes.
const Size = 32
