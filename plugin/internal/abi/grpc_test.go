package abi

import (
	"strings"
	"testing"
)

func TestGrpcService(t *testing.T) {
	for name, want := range map[string]string{
		"etcd1":                  "\x0a\x07\x0a\x05etcd1",
		"":                       "\x0a\x02\x0a\x00",
		strings.Repeat("c", 126): "\x0a\x80\x01\x0a\x7e" + strings.Repeat("c", 126),
		strings.Repeat("c", 256): "\x0a\x83\x02\x0a\x80\x02" + strings.Repeat("c", 256),
	} {
		if got := string(grpcService(name)); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
