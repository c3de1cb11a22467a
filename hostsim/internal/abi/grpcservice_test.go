package abi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/callonce/callonce/hostsim/internal/header"
)

func TestGrpcServiceIsReadAsProtobuf(t *testing.T) {
	name := func(b ...byte) string { return string(b) }
	for text, want := range map[string]struct {
		ok bool
		s  GRPCService
	}{
		"etcd":                                   {}, // a field of four bytes of which one is missing
		"etcd1":                                  {ok: true},
		"grpc":                                   {},
		"\n\x06\n\x04etcd":                       {true, GRPCService{Envoy: true, Cluster: "etcd"}},
		"\n\x06\n\x04etcd\x12\x00":               {true, GRPCService{Google: true, Cluster: "etcd"}},
		"\n\x09\n\x04etcd\x12\x01a":              {true, GRPCService{Envoy: true, Cluster: "etcd", Authority: "a"}},
		"\n\x07\n\x04etcd":                       {},
		"\n\x03\n\x01\xff":                       {},
		"":                                       {ok: true},
		name(0x0b, 0x0c):                         {ok: true}, // a group
		name(0x0b, 0x14):                         {},         // that ends as another
		name(0x0c):                               {},
		strings.Repeat("\x0b", 200):              {},
		name(0xff, 0xff, 0xff, 0xff, 0xff, 0xff): {},
		"*\x06\n\x01k\x12\x01v\n\x06\n\x04etcd":  {true, GRPCService{Envoy: true, Cluster: "etcd", Metadata: []header.Line{{Name: "k", Value: "v"}}}},
	} {
		s, ok := ParseGRPCService([]byte(text))
		if ok != want.ok || ok && fmt.Sprint(s) != fmt.Sprint(want.s) {
			t.Errorf("%q: got %v %v, want %v %v", text, s, ok, want.s, want.ok)
		}
	}
}
