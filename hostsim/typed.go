package hostsim

import (
	"encoding/binary"
	"math"
)

// What Envoy hands to a module where a property is no text (proxy_get_property, CEL values of its attributes), for [Config].Properties
// and [ProxyOptions].Properties: source/extensions/common/wasm/context.cc, serializeValue, and testdata/scenarios/properties*.txt. A
// point in time is an Int64 of nanoseconds since 1970, a duration one of nanoseconds.

// Int64 is an integer, such as request.size or connection_id: 8 bytes, little endian.
func Int64(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

// Uint64 is an integer without a sign: the same 8 bytes.
func Uint64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// Double is a number of metadata, such as a claim of a JSON Web Token: its IEEE 754 bits, little endian.
func Double(n float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(n)) }

// Bool is a truth value, such as connection.mtls: one byte.
func Bool(b bool) []byte {
	if b {
		return []byte{1}
	}
	return []byte{0}
}
