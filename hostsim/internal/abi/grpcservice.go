package abi

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/callonce/callonce/hostsim/internal/header"
)

// GRPCService is what counts of an envoy.config.core.v3.GrpcService.
type GRPCService struct {
	Envoy, Google      bool // which client it names, if any
	Cluster, Authority string
	Metadata           []header.Line
}

// ParseGRPCService reads the message. ok is false for bytes that are none: they are a cluster's name then.
func ParseGRPCService(b []byte) (s GRPCService, ok bool) {
	ok = eachField(b, func(field int, value []byte) bool {
		switch field {
		case 1: // envoy_grpc: cluster_name 1, authority 2
			s.Envoy, s.Google = true, false
			return eachField(value, func(field int, value []byte) bool {
				switch field {
				case 1:
					s.Cluster = string(value)
				case 2:
					s.Authority = string(value)
				default:
					return true
				}
				return utf8.Valid(value)
			})
		case 2: // google_grpc
			s.Envoy, s.Google = false, true
		case 5: // initial_metadata, each a HeaderValue: key 1, value 2
			var h header.Line
			ok := eachField(value, func(field int, value []byte) bool {
				switch field {
				case 1:
					h.Name = string(value)
				case 2:
					h.Value = string(value)
				}
				return true
			})
			s.Metadata = append(s.Metadata, h)
			return ok
		}
		return true
	})
	return s, ok
}

// eachField walks a protobuf message and gives f each field of bytes. It is false where the message is malformed, or f says so.
func eachField(b []byte, f func(field int, value []byte) bool) bool {
	_, ok := fields(b, 0, 0, f)
	return ok
}

// maxGroups bounds how deep groups nest, as protobuf's own readers do.
const maxGroups = 100

// fields walks to the end of b, or of the group of that number.
func fields(b []byte, group uint64, depth int, f func(int, []byte) bool) (rest []byte, ok bool) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 || tag>>3 >= 1<<29 {
			return nil, false
		}
		b = b[n:]
		size := uint64(0)
		switch tag & 7 {
		case 0:
			if _, n = binary.Uvarint(b); n <= 0 {
				return nil, false
			}
			size = uint64(n)
		case 1:
			size = 8
		case 2:
			length, n := binary.Uvarint(b)
			if n <= 0 || length > uint64(len(b)-n) {
				return nil, false
			}
			if b = b[n:]; !f(int(tag>>3), b[:length]) {
				return nil, false
			}
			size = length
		case 3:
			if depth == maxGroups {
				return nil, false
			}
			if b, ok = fields(b, tag>>3, depth+1, func(int, []byte) bool { return true }); !ok {
				return nil, false
			}
		case 4:
			return b, group == tag>>3
		case 5:
			size = 4
		default:
			return nil, false
		}
		if size > uint64(len(b)) {
			return nil, false
		}
		b = b[size:]
	}
	return nil, group == 0
}
