// Package manifests holds the manifests below envoy/istio and envoy/gateway to what reads
// them: the meshes' own types and resource definitions, Envoy's own messages, and the
// filter's own judgement of its configuration. It needs no mesh, and knows none that runs. It is a module of its
// own, so that nothing else gets the meshes' many dependencies.
package manifests
