package hostsim

import (
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/callonce/callonce/hostsim/internal/header"
)

// Unary gRPC callouts. Streams link and say that they are not there, and so no token of one is ever given out.
var grpcFuncs = []hostFunc{
	{name: "proxy_grpc_call", words: 12, run: grpcUnary},
	{name: "proxy_grpc_stream", words: 9, run: unimplemented},
	{name: "proxy_grpc_cancel", words: 1, run: grpcCancel},
	{name: "proxy_grpc_close", words: 1, run: grpcCancel},
	{name: "proxy_grpc_send", words: 4, run: grpcSend},
}

func unimplemented(*vm, []uint64, *Call) Status { return StatusUnimplemented }

// The lowest two bits of a token say what it stands for.
const (
	tokenKind       = 3
	tokenGrpcCall   = 1
	tokenGrpcStream = 2
)

// errNoGrpcClient is what ends a VM where Envoy ends as a whole (measured on 1.40): a GrpcService that names no client. So does a
// cluster's plain name that happens to be a well-formed message, such as "etcd1": the bytes "tcd1" are the value of a field 12.
var errNoGrpcClient = errors.New("proxy_grpc_call with a GrpcService that names no client: Envoy dies of that")

func grpcUnary(v *vm, s []uint64, _ *Call) Status {
	var args [5][]byte
	for i := range args {
		var ok bool
		if args[i], ok = v.bytesArg(s, 2*i); !ok {
			return StatusInvalidMemory
		}
	}
	if !v.mem.WriteUint32Le(word(s, 11), 0) {
		return StatusInvalidMemory
	}
	service, message := grpcService{cluster: string(args[0])}, args[4]
	plain := true
	if parsed, ok := parseGrpcService(args[0]); ok {
		service, plain = parsed, false
	}
	switch {
	case service.google:
		return StatusUnimplemented
	case !plain && !service.envoy:
		panic(errNoGrpcClient)
	}
	pool := v.host.clusters[service.cluster]
	switch {
	case pool == nil && plain:
		return StatusParseFailure
	case pool == nil:
		// The token that nobody was given is told of its end, once the module has returned (measured on 1.40).
		v.nextGrpc += calloutIDStep
		c := &grpcCall{vm: v, root: v.acting().root, token: v.nextGrpc | tokenGrpcCall, x: noExchange{}}
		v.deferred = append(v.deferred, func() { c.deliver(func() { c.closed(grpcUnavailable, "Cluster not available") }) })
		return StatusInternalFailure
	}
	authority := service.authority
	if authority == "" {
		authority = service.cluster
	}
	timeout := time.Duration(word(s, 10)) * time.Millisecond
	h := &header.Map{Lines: []Header{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: authority},
		{Name: ":path", Value: "/" + string(args[1]) + "/" + string(args[2])}, {Name: "te", Value: "trailers"}, {Name: "grpc-timeout", Value: grpcTimeout(timeout)},
		{Name: "content-type", Value: "application/grpc"}}}
	for _, l := range append(service.metadata, parsePairs(args[3])...) {
		l.Name = lower([]byte(l.Name))
		if strings.HasSuffix(l.Name, "-bin") {
			l.Value = base64.StdEncoding.EncodeToString([]byte(l.Value))
		}
		h.Add(l.Name, l.Value)
	}
	h.Add("x-envoy-internal", "true")
	if timeout > 0 {
		h.Add("x-envoy-expected-rq-timeout-ms", strings.TrimSuffix(grpcMillis(timeout), "m"))
	}
	v.nextGrpc += calloutIDStep
	c := &grpcCall{vm: v, root: v.acting().root, token: v.nextGrpc | tokenGrpcCall}
	v.grpcCalls[c.token] = c
	c.begin(pool, h, message, timeout)
	v.mem.WriteUint32Le(word(s, 11), c.token)
	return StatusOK
}

// grpcCancel gives a call up; proxy_grpc_close does the same to it.
func grpcCancel(v *vm, s []uint64, _ *Call) Status {
	token := word(s, 0)
	if kind := token & tokenKind; kind != tokenGrpcCall && kind != tokenGrpcStream {
		return StatusBadArgument
	}
	c := v.grpcCalls[token]
	if c == nil {
		return StatusNotFound
	}
	c.cancel()
	delete(v.grpcCalls, token)
	return StatusOK
}

func grpcSend(_ *vm, s []uint64, _ *Call) Status {
	if word(s, 0)&tokenKind != tokenGrpcStream {
		return StatusBadArgument
	}
	return StatusNotFound
}
