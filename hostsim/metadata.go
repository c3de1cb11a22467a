package hostsim

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Dynamic metadata, as other filters of the chain leave it: a google.protobuf.Struct for each of their names. A value is nil, a
// bool, a float64, a string, a []any or a map[string]any. Measured on Envoy 1.36.4 and 1.40.0 (testdata/scenarios/properties-typed.txt).

// metadataProperty walks a path below "metadata". Only the whole message comes as protobuf, in which the values have their types.
func metadataProperty(all map[string]any, path []string) ([]byte, Status) {
	if len(path) == 0 {
		return appendMetadata(nil, all), StatusOK
	}
	if path[0] != "filter_metadata" {
		return nil, StatusNotFound
	}
	var at any = all
	for _, name := range path[1:] {
		var ok bool
		switch in := at.(type) {
		case map[string]any:
			at, ok = in[name]
		case []any:
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(in) {
				at, ok = in[i], true
			}
		}
		if !ok {
			return nil, StatusNotFound
		}
	}
	return appendValue(nil, at)
}

// saidMetadata is a value that Properties gave. Their paths are joined with dots, which names of filters have too, so that only who
// asks for one knows its parts: the whole of the metadata holds those that were asked for, as strings.
type saidMetadata struct {
	path  []string // the filter's name and what follows
	value string
}

func withSaid(all map[string]any, said []saidMetadata) map[string]any {
	for _, one := range said {
		all = with(all, one.path, one.value)
	}
	return all
}

// with is a copy in which a path leads to a value.
func with(fields map[string]any, path []string, v any) map[string]any {
	out := maps.Clone(fields)
	if out == nil {
		out = map[string]any{}
	}
	if len(path) > 1 {
		inner, _ := out[path[0]].(map[string]any)
		v = with(inner, path[1:], v)
	}
	out[path[0]] = v
	return out
}

// appendValue has the bytes of a value without its type. There are none for null, nor for what holds one.
func appendValue(dst []byte, v any) ([]byte, Status) {
	switch v := v.(type) {
	case bool:
		if v {
			return append(dst, 1), StatusOK
		}
		return append(dst, 0), StatusOK
	case float64:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v)), StatusOK
	case string:
		return append(dst, v...), StatusOK
	case []any:
		// A list is pairs too, the second of each empty.
		pairs := make([][2][]byte, len(v))
		for i, e := range v {
			b, st := appendValue(nil, e)
			if st != StatusOK {
				return nil, st
			}
			pairs[i][0] = b
		}
		return appendValuePairs(dst, pairs), StatusOK
	case map[string]any:
		pairs := make([][2][]byte, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) { // Envoy's order is none
			b, st := appendValue(nil, v[name])
			if st != StatusOK {
				return nil, st
			}
			pairs = append(pairs, [2][]byte{[]byte(name), b})
		}
		return appendValuePairs(dst, pairs), StatusOK
	}
	return nil, StatusSerialization
}

func appendValuePairs(dst []byte, pairs [][2][]byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(pairs)))
	for _, p := range pairs {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p[0])))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p[1])))
	}
	for _, p := range pairs {
		dst = append(append(append(append(dst, p[0]...), 0), p[1]...), 0)
	}
	return dst
}

// appendMetadata is an envoy.config.core.v3.Metadata: a map of names to structs in field 1.
func appendMetadata(dst []byte, all map[string]any) []byte { return appendFields(dst, all, false) }

// appendFields is a map of protobuf in field 1, of structs, or of values.
func appendFields(dst []byte, fields map[string]any, values bool) []byte {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var value []byte
		if values {
			value = protoValue(fields[name])
		} else {
			inner, _ := fields[name].(map[string]any)
			value = appendFields(nil, inner, true)
		}
		entry := appendBytes(nil, 1, []byte(name))
		dst = appendBytes(dst, 1, appendBytes(entry, 2, value))
	}
	return dst
}

// protoValue is a google.protobuf.Value.
func protoValue(v any) []byte {
	switch v := v.(type) {
	case bool:
		if v {
			return []byte{4 << 3, 1}
		}
		return []byte{4 << 3, 0}
	case float64:
		return binary.LittleEndian.AppendUint64([]byte{2<<3 | 1}, math.Float64bits(v))
	case string:
		return appendBytes(nil, 3, []byte(v))
	case map[string]any:
		return appendBytes(nil, 5, appendFields(nil, v, true))
	case []any:
		var list []byte
		for _, e := range v {
			list = appendBytes(list, 1, protoValue(e))
		}
		return appendBytes(nil, 6, list)
	}
	return []byte{1 << 3, 0} // null
}

func appendBytes(dst []byte, field int, b []byte) []byte {
	dst = binary.AppendUvarint(append(dst, byte(field<<3|2)), uint64(len(b)))
	return append(dst, b...)
}
