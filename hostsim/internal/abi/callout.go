package abi

import "time"

// Callouts. Streams of gRPC link and say that they are not there, and so no token of one is ever given out.
var calloutFuncs = []function{
	{name: "proxy_http_call", words: 10, run: httpCall},
	{name: "proxy_grpc_call", words: 12, run: grpcCall},
	{name: "proxy_grpc_stream", words: 9, run: grpcStream},
	{name: "proxy_grpc_cancel", words: 1, run: grpcCancel},
	{name: "proxy_grpc_close", words: 1, run: grpcCancel},
	{name: "proxy_grpc_send", words: 4, run: grpcSend},
}

func httpCall(g *Guest, s []uint64, _ *Arguments) Status {
	b, ok := g.several(s, 0, 4) // cluster, headers, body, trailers
	if !ok || !g.Memory.WriteUint32Le(word(s, 9), 0) {
		return InvalidMemory
	}
	timeout := int32(word(s, 8))
	if timeout < 0 {
		return BadArgument
	}
	token, st := g.Proxy.HTTPCall(string(b[0]), ParsePairs(b[1]), ParsePairs(b[3]), b[2], time.Duration(timeout)*time.Millisecond)
	if st == OK {
		g.Memory.WriteUint32Le(word(s, 9), token)
	}
	return st
}

func grpcCall(g *Guest, s []uint64, _ *Arguments) Status {
	b, ok := g.several(s, 0, 5) // service, its name, method, metadata, message
	if !ok || !g.Memory.WriteUint32Le(word(s, 11), 0) {
		return InvalidMemory
	}
	token, st := g.Proxy.GRPCCall(b[0], string(b[1]), string(b[2]), ParsePairs(b[3]), b[4], time.Duration(word(s, 10))*time.Millisecond)
	if st == OK {
		g.Memory.WriteUint32Le(word(s, 11), token)
	}
	return st
}

func grpcStream(*Guest, []uint64, *Arguments) Status { return Unimplemented }

// grpcCancel gives a call up; proxy_grpc_close does the same to it.
func grpcCancel(g *Guest, s []uint64, _ *Arguments) Status {
	token := word(s, 0)
	if kind := token & tokenKind; kind != TokenGRPC && kind != tokenStream {
		return BadArgument
	}
	return g.Proxy.GRPCCancel(token)
}

func grpcSend(_ *Guest, s []uint64, _ *Arguments) Status {
	if word(s, 0)&tokenKind != tokenStream {
		return BadArgument
	}
	return NotFound
}
