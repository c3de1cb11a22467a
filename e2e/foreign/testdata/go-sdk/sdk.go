//go:build sdk

// Package examples says what the examples import, for go mod tidy: their own files are copied beside this one by a test.
package examples

import (
	_ "github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"
	_ "github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm"
)
