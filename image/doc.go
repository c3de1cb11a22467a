// Package image packs the compiled filter as an OCI image that Istio and Envoy Gateway
// load, with a list of what it was made of (SPDX) and a statement of how it was built
// (in-toto, SLSA) as referrers of the image.
//
// Everything is a function of the source, the version and the Go release in go.version:
// no times, no owners, no paths, no names of machines. So whoever builds the same source
// again gets the same digest, and may compare. It knows nothing of what the filter does.
package image
