//go:build wasip1

// Command empty is a filter that does nothing: what a call into a module of Go costs, and nothing else. It has the callbacks that
// callonce has, on the smallest ABI layer that there is.
package main

import "unsafe"

func main() {}

// buffers are what the host was given: the collector must not take them.
var buffers [][]byte

//go:wasmexport proxy_on_memory_allocate
func allocate(size uint32) unsafe.Pointer {
	buffers = append(buffers[:0], make([]byte, max(size, 1)))
	return unsafe.Pointer(&buffers[0][0])
}

//go:wasmexport proxy_abi_version_0_2_0
func abiVersion() {}

//go:wasmexport proxy_on_vm_start
func onVMStart(context, size uint32) uint32 { return 1 }

//go:wasmexport proxy_on_configure
func onConfigure(context, size uint32) uint32 { return 1 }

//go:wasmexport proxy_on_context_create
func onContextCreate(id, root uint32) {}

//go:wasmexport proxy_on_request_headers
func onRequestHeaders(id, count, end uint32) uint32 { return 0 }

//go:wasmexport proxy_on_request_body
func onRequestBody(id, size, end uint32) uint32 { return 0 }

//go:wasmexport proxy_on_response_headers
func onResponseHeaders(id, count, end uint32) uint32 { return 0 }

//go:wasmexport proxy_on_response_body
func onResponseBody(id, size, end uint32) uint32 { return 0 }

//go:wasmexport proxy_on_log
func onLog(id uint32) {}

//go:wasmexport proxy_on_delete
func onDelete(id uint32) {}
