// Package abi is the edge between a module and its proxy: the functions of proxy-wasm's ABI 0.2 and of WASI that a module may import. They
// read their arguments from the module's memory, ask a [Proxy], and write its answer back. It decides nothing that is not a matter of
// bytes and memory, and knows neither streams nor connections.
package abi
