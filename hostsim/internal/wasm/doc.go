// Package wasm compiles modules and runs them in VMs, on wazero. A VM is an instance: memory, exports, and whom its imports ask. It knows
// nothing of contexts, streams or configurations.
package wasm
