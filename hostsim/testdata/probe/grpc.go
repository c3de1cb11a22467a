package main

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unsafe"

	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"
)

// The SDK has no gRPC calls; these are the ABI's own.

//go:wasmimport env proxy_grpc_call
func hostGrpcCall(service unsafe.Pointer, serviceSize uint32, name unsafe.Pointer, nameSize uint32, method unsafe.Pointer, methodSize uint32,
	metadata unsafe.Pointer, metadataSize uint32, message unsafe.Pointer, messageSize uint32, timeout uint32, token unsafe.Pointer) uint32

//go:wasmimport env proxy_grpc_stream
func hostGrpcStream(service unsafe.Pointer, serviceSize uint32, name unsafe.Pointer, nameSize uint32, method unsafe.Pointer, methodSize uint32,
	metadata unsafe.Pointer, metadataSize uint32, token unsafe.Pointer) uint32

//go:wasmimport env proxy_grpc_cancel
func hostGrpcCancel(token uint32) uint32

//go:wasmimport env proxy_grpc_close
func hostGrpcClose(token uint32) uint32

//go:wasmimport env proxy_grpc_send
func hostGrpcSend(token uint32, message unsafe.Pointer, messageSize uint32, end uint32) uint32

//go:wasmimport env proxy_get_buffer_bytes
func hostGetBuffer(kind, start, length uint32, data, size unsafe.Pointer) uint32

//go:wasmimport env proxy_get_header_map_pairs
func hostGetPairs(kind uint32, data, size unsafe.Pointer) uint32

//go:wasmimport env proxy_get_status
func hostGetStatus(code, data, size unsafe.Pointer) uint32

// grpcCall is one that is under way, with who made it.
type grpcCall struct {
	plugin *plugin
	stream *stream
	number int // of the calls of the plugin or stream
	where  string
}

var (
	grpcCalls = map[uint32]*grpcCall{}
	// grpcCaller made the last call, if in vain.
	grpcCaller *grpcCall
)

func addGrpcVerbs() {
	verbs["grpc"] = grpcUnary
	verbs["grpcstream"] = func(r *run, a []string) string {
		service, method := serviceOf(a[0]), []byte(a[1])
		var token uint32
		st := hostGrpcStream(data(service), size(service), data(grpcService), size(grpcService), data(method), size(method), nil, 0, unsafe.Pointer(&token))
		return r.called(st, token)
	}
	verbs["grpccancel"] = func(r *run, a []string) string { return fmt.Sprintf("status=%d", hostGrpcCancel(r.token(a))) }
	verbs["grpcclose"] = func(r *run, a []string) string { return fmt.Sprintf("status=%d", hostGrpcClose(r.token(a))) }
	verbs["grpcsend"] = func(r *run, a []string) string {
		b := []byte(a[1])
		return fmt.Sprintf("status=%d", hostGrpcSend(r.token(a), data(b), size(b), 1))
	}
	verbs["grpcbuffer"] = func(*run, []string) string { return grpcBuffer() }
	verbs["status"] = func(*run, []string) string { return grpcStatus() }
	verbs["grpcmaps"] = func(*run, []string) string { return grpcPairs(4) + " " + grpcPairs(5) }
}

var grpcService = []byte("probe.Svc")

// token is a number, or that of the stream's last call.
func (r *run) token(a []string) uint32 {
	if len(a) > 0 {
		return uint32(number(a[0]))
	}
	return r.stream.grpcToken
}

func data(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
func size(b []byte) uint32         { return uint32(len(b)) }

// serviceOf is a cluster's name as it is, or after "proto:" as an envoy.config.core.v3.GrpcService with an envoy_grpc of that cluster.
// "google:" makes one with a google_grpc instead, "none:" one with neither.
func serviceOf(text string) []byte {
	kind, name, ok := strings.Cut(text, ":")
	field := func(tag byte, b []byte) []byte { return append([]byte{tag, byte(len(b))}, b...) }
	switch {
	case !ok:
		return []byte(text)
	case kind == "proto":
		return field(0x0a, field(0x0a, []byte(name)))
	case kind == "google":
		return field(0x12, field(0x0a, []byte(name)))
	case kind == "authority":
		return field(0x0a, append(field(0x0a, []byte(name)), field(0x12, []byte("an.authority"))...))
	}
	return nil
}

// grpcUnary: CLUSTER METHOD TIMEOUT_MS [BODY [NAME=VALUE…]].
func grpcUnary(r *run, a []string) string {
	service, method := serviceOf(a[0]), []byte(a[1])
	var message []byte
	var metadata [][2]string
	if len(a) > 3 {
		message = []byte(a[3])
		for _, m := range a[4:] {
			k, v, _ := strings.Cut(m, "=")
			metadata = append(metadata, [2]string{k, v})
		}
	}
	pairs := formatPairs(metadata)
	var token uint32
	st := hostGrpcCall(data(service), size(service), data(grpcService), size(grpcService), data(method), size(method),
		data(pairs), size(pairs), data(message), size(message), uint32(number(a[2])), unsafe.Pointer(&token))
	return r.called(st, token)
}

func (r *run) called(st, token uint32) string {
	c := &grpcCall{plugin: r.plugin, stream: r.stream, where: r.where}
	grpcCaller = c
	if st == 0 {
		r.plugin.grpcs++
		c.number = r.plugin.grpcs
		if r.stream != nil {
			r.stream.grpcs++
			r.stream.grpcToken = token
			c.number = r.stream.grpcs
		}
		grpcCalls[token] = c
	}
	return fmt.Sprintf("status=%d token=%v", st, token > 0)
}

func formatPairs(pairs [][2]string) []byte {
	if len(pairs) == 0 {
		return nil
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(pairs)))
	for _, p := range pairs {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(p[0])))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(p[1])))
	}
	for _, p := range pairs {
		b = append(append(b, p[0]...), 0)
		b = append(append(b, p[1]...), 0)
	}
	return b
}

func grpcBuffer() string {
	var ptr unsafe.Pointer
	var n uint32
	st := hostGetBuffer(5, 0, 1<<30, unsafe.Pointer(&ptr), unsafe.Pointer(&n))
	b := unsafe.Slice((*byte)(ptr), n)
	if len(b) > 200 {
		return fmt.Sprintf("%d bytes %q… status=%d", len(b), b[:8], st)
	}
	return fmt.Sprintf("%q status=%d", b, st)
}

func grpcPairs(kind uint32) string {
	var ptr unsafe.Pointer
	var n uint32
	st := hostGetPairs(kind, unsafe.Pointer(&ptr), unsafe.Pointer(&n))
	return fmt.Sprintf("%q status=%d", unsafe.Slice((*byte)(ptr), n), st)
}

func grpcStatus() string {
	var code, n uint32
	var ptr unsafe.Pointer
	st := hostGetStatus(unsafe.Pointer(&code), unsafe.Pointer(&ptr), unsafe.Pointer(&n))
	return fmt.Sprintf("code=%d text=%q status=%d", code, unsafe.Slice((*byte)(ptr), n), st)
}

// answered says what came, and runs the steps of the stream that asked: "grpc" once, "grpcN" for its N-th call.
func answered(ctx, token uint32, format string, args ...any) {
	c := grpcCalls[token]
	if c == nil {
		if grpcCaller != nil && grpcCaller.stream != nil {
			say("%s grpc: for a token that nobody was given: %s", grpcCaller.stream.name, fmt.Sprintf(format, args...))
		}
		return
	}
	to, name := fmt.Sprint("ctx=", ctx), ""
	switch {
	case ctx == c.plugin.id:
		to = "the plugin"
	case c.stream != nil && ctx == c.stream.id:
		to = "the stream"
	}
	if c.stream != nil {
		name = c.stream.name + " "
	}
	say("%sgrpc %d to %s: %s", name, c.number, to, fmt.Sprintf(format, args...))
	if c.stream == nil {
		return
	}
	for _, where := range []string{"grpc", fmt.Sprint("grpc", c.number)} {
		for _, st := range c.stream.plan {
			if st.where == where && !st.done {
				say("%seffective %v", name, proxywasm.SetEffectiveContext(c.stream.id))
				(&run{plugin: c.plugin, stream: c.stream, where: where, once: true}).all(c.stream.plan)
				break
			}
		}
	}
}

//go:wasmexport proxy_on_grpc_receive_initial_metadata
func onGrpcInitial(ctx, token, n uint32) { answered(ctx, token, "initial metadata n=%d", n) }

//go:wasmexport proxy_on_grpc_receive
func onGrpcReceive(ctx, token, n uint32) {
	answered(ctx, token, "message size=%d %s", n, grpcBuffer())
}

//go:wasmexport proxy_on_grpc_receive_trailing_metadata
func onGrpcTrailing(ctx, token, n uint32) { answered(ctx, token, "trailing metadata n=%d", n) }

//go:wasmexport proxy_on_grpc_close
func onGrpcClose(ctx, token, status uint32) {
	answered(ctx, token, "close %d; %s; buffer %s", int32(status), grpcStatus(), grpcBuffer())
}
