package abi

import "unsafe"

// The functions of the host (proxy-wasm ABI 0.2.0). Where one hands bytes over, it
// first calls proxy_on_memory_allocate, which is our own code and may move this
// goroutine's stack: so what such a function is given must not lie on the stack, which
// is why those functions are not marked noescape, and results come through returned.

//go:wasmimport env proxy_get_property
func proxyGetProperty(path unsafe.Pointer, pathSize uint32, value, valueSize unsafe.Pointer) status

//go:wasmimport env proxy_get_header_map_pairs
func proxyGetHeaderMapPairs(kind uint32, pairs, pairsSize unsafe.Pointer) status

//go:wasmimport env proxy_get_header_map_value
func proxyGetHeaderMapValue(kind uint32, name unsafe.Pointer, nameSize uint32, value, valueSize unsafe.Pointer) status

//go:wasmimport env proxy_get_buffer_bytes
func proxyGetBufferBytes(kind, start, most uint32, bytes, size unsafe.Pointer) status

//go:wasmimport env proxy_get_shared_data
func proxyGetSharedData(key unsafe.Pointer, keySize uint32, value, valueSize, cas unsafe.Pointer) status

//go:wasmimport env proxy_dequeue_shared_queue
func proxyDequeueSharedQueue(queue uint32, bytes, size unsafe.Pointer) status

// The others only take.

//go:wasmimport env proxy_log
//go:noescape
func proxyLog(level uint32, text unsafe.Pointer, size uint32) status

//go:wasmimport env proxy_set_property
//go:noescape
func proxySetProperty(path unsafe.Pointer, pathSize uint32, value unsafe.Pointer, valueSize uint32) status

//go:wasmimport env proxy_replace_header_map_value
//go:noescape
func proxyReplaceHeaderMapValue(kind uint32, name unsafe.Pointer, nameSize uint32, value unsafe.Pointer, valueSize uint32) status

//go:wasmimport env proxy_remove_header_map_value
//go:noescape
func proxyRemoveHeaderMapValue(kind uint32, name unsafe.Pointer, nameSize uint32) status

//go:wasmimport env proxy_set_buffer_bytes
//go:noescape
func proxySetBufferBytes(kind, start, size uint32, bytes unsafe.Pointer, bytesSize uint32) status

//go:wasmimport env proxy_send_local_response
//go:noescape
func proxySendLocalResponse(code uint32, details unsafe.Pointer, detailsSize uint32, body unsafe.Pointer, bodySize uint32,
	pairs unsafe.Pointer, pairsSize uint32, grpc int32) status

//go:wasmimport env proxy_continue_stream
func proxyContinueStream(kind uint32) status

//go:wasmimport env proxy_set_effective_context
func proxySetEffectiveContext(context uint32) status

//go:wasmimport env proxy_set_tick_period_milliseconds
func proxySetTickPeriodMilliseconds(period uint32) status

//go:wasmimport env proxy_set_shared_data
//go:noescape
func proxySetSharedData(key unsafe.Pointer, keySize uint32, value unsafe.Pointer, valueSize, cas uint32) status

//go:wasmimport env proxy_register_shared_queue
//go:noescape
func proxyRegisterSharedQueue(name unsafe.Pointer, nameSize uint32, queue unsafe.Pointer) status

//go:wasmimport env proxy_enqueue_shared_queue
//go:noescape
func proxyEnqueueSharedQueue(queue uint32, bytes unsafe.Pointer, size uint32) status

//go:wasmimport env proxy_define_metric
//go:noescape
func proxyDefineMetric(kind uint32, name unsafe.Pointer, nameSize uint32, metric unsafe.Pointer) status

//go:wasmimport env proxy_increment_metric
func proxyIncrementMetric(metric uint32, by int64) status

//go:wasmimport env proxy_record_metric
func proxyRecordMetric(metric uint32, value uint64) status

//go:wasmimport env proxy_get_metric
//go:noescape
func proxyGetMetric(metric uint32, value unsafe.Pointer) status

// Which headers, and which buffer.
const (
	ofRequest  = 0
	ofResponse = 2

	requestBody   = 0
	responseBody  = 1
	configuration = 7
)

const (
	requestStream = 0

	counterMetric = 0
	gaugeMetric   = 1

	logWarn = 3
)

// returned is where host functions put what they return beside the status. They are
// never called from within one another, so that one is enough.
var returned struct {
	bytes, size uint32
	number      uint64
}

// mem is where the host puts bytes.
var mem memory

// pBytes and pSize are the arguments of a function that hands bytes over. It leaves
// the size alone when it fails.
func pBytes() unsafe.Pointer {
	returned.size = 0
	return unsafe.Pointer(&returned.bytes)
}

func pSize() unsafe.Pointer { return unsafe.Pointer(&returned.size) }

// taken gives what such a function handed over.
func taken(s status) ([]byte, status) { return mem.answer(uintptr(returned.bytes), returned.size, s) }

func pText(s string) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(s)), uint32(len(s))
}

//go:wasmexport proxy_on_memory_allocate
func onMemoryAllocate(size uint32) unsafe.Pointer {
	countIn(int(size))
	return mem.allocate(int(size))
}

//go:wasmexport proxy_abi_version_0_2_0
func onABIVersion() {}
