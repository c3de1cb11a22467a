package abi

import (
	"time"
	"unsafe"

	"github.com/callonce/callonce/plugin/internal/etcd"
)

//go:wasmimport env proxy_grpc_call
//go:noescape
func proxyGrpcCall(service unsafe.Pointer, serviceSize uint32, name unsafe.Pointer, nameSize uint32, method unsafe.Pointer, methodSize uint32,
	metadata unsafe.Pointer, metadataSize uint32, message unsafe.Pointer, messageSize uint32, timeout uint32, token unsafe.Pointer) status

const grpcMessage = 5 // buffer

// caller calls one cluster. What comes of it is the plugin context's, whichever stream asked.
type caller []byte // the GrpcService

func newCaller(cluster string) etcd.Caller { return caller(grpcService(cluster)) }

// Call implements etcd.Caller.
func (c caller) Call(service, method string, message []byte, timeout time.Duration) (etcd.CallID, error) {
	name, nameSize := pText(service)
	verb, verbSize := pText(method)
	returned.number = 0
	st := proxyGrpcCall(unsafe.Pointer(unsafe.SliceData(c)), uint32(len(c)), name, nameSize, verb, verbSize, nil, 0,
		unsafe.Pointer(unsafe.SliceData(message)), uint32(len(message)), uint32(max(timeout.Milliseconds(), 1)), unsafe.Pointer(&returned.number))
	return etcd.CallID(returned.number), st.err()
}

// A call of one message ends by the one callback or by the other.

//go:wasmexport proxy_on_grpc_receive
func onGrpcReceive(context, token, size uint32) {
	mem.begin()
	p := pluginOf(context)
	if p == nil || p.guard == nil {
		return
	}
	message, st := taken(proxyGetBufferBytes(grpcMessage, 0, size, pBytes(), pSize()))
	if st != statusOK && size > 0 {
		p.guard.CallEnded(token, int(st), nil)
		return
	}
	p.guard.CallEnded(token, 0, message)
}

//go:wasmexport proxy_on_grpc_close
func onGrpcClose(context, token, status uint32) {
	mem.begin()
	if p := pluginOf(context); p != nil && p.guard != nil && status != 0 {
		p.guard.CallEnded(token, int(int32(status)), nil)
	}
}
