// Package abi joins the filter to a proxy-wasm host (ABI 0.2.0): callbacks go in,
// host calls come out. It decides nothing.
//
// It speaks the ABI itself, without the Go SDK, because every request pays for it.
// Measured on Envoy 1.40, whose own work leaves none of our code in the processor's
// caches: a filter that does nothing costs 15 µs a request with the SDK and 3 to 8 µs
// with a few bare exports. Most of the rest was spent on memory: the SDK has the host
// write every header, value and body into new garbage, and looks streams up in maps.
// Here the host writes into memory that is there already (memory.go), streams are used
// again (streams.go), and callbacks that nobody needs are not exported.
//
// The same filter on the SDK (plugin/sdk) is its judge: see TestBothBindings in plugin/conformance.
//
// What is compiled for the host alone is in the files named _wasip1; the rest runs, and
// is tested, anywhere.
package abi
