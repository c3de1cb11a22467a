// Package proxy joins the filter to a proxy-wasm host: callbacks go in, host calls
// come out. It decides nothing.
package proxy
