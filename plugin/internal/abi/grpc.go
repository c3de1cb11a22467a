package abi

// grpcService is an envoy.config.core.v3.GrpcService that names a cluster of the proxy's. The plain name would do, but for the names
// that happen to be such a message: "etcd1" ends Envoy 1.40.
//
//	GrpcService envoy_grpc 1 | EnvoyGrpc cluster_name 1
func grpcService(cluster string) []byte {
	name := appendProtoBytes(nil, 1, []byte(cluster))
	return appendProtoBytes(nil, 1, name)
}

// appendProtoBytes appends a field of protobuf that holds bytes.
func appendProtoBytes(dst []byte, field byte, b []byte) []byte {
	dst = append(dst, field<<3|2)
	n := len(b)
	for ; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(append(dst, byte(n)), b...)
}
