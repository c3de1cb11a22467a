// Package e2e holds the promises that are kept on a real Envoy, with real MCP servers
// and clients; "go test ./..." in this folder checks them. The packages below it
// start what they need. It must not know what the filter is made of: it sees a compiled
// module, and what a proxy shows.
package e2e
