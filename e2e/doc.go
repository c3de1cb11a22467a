// Package e2e holds the promises that are kept on a real Envoy, with real MCP servers
// and clients; "go test ./..." in this folder checks them. The packages below it
// start what they need.
package e2e
