// Package mesh runs the manifests below envoy/istio and envoy/gateway on the meshes' own
// programs: istiod with pilot-agent, and Envoy Gateway, each with a real Envoy and the
// filter's image from a registry.
//
// The programs come from the Go modules mesh/istio and mesh/gateway, and are built once.
// All of them serve at their usual ports: the tests run in namespaces of their own (Linux;
// network, and files below /var/lib). Nothing here is Kubernetes: its API server is
// apiserver, and no pod is ever started. The tests know what a mesh makes of a manifest by
// its answers and by what Envoy shows of itself, and nothing of how it got there.
package mesh
