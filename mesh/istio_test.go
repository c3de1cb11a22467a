package mesh_test

import (
	"testing"
)

// The whole filter on an ingress gateway, as envoy/istio/gateway has it.
func TestIstioGateway(t *testing.T) {
	all := manifests(t, "istio/gateway")
	i := startIstio(t, meshConfig(t), all...)
	eventually(t, "a guard", i.guarding)
	i.guards(t, "first")
}

func kubectl([]string) int { return 1 }
