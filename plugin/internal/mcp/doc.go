// Package mcp reads what was asked and what was answered: the JSON-RPC bodies of
// MCP (Model Context Protocol, 2025-03-26 to 2026-07-28), its routing headers, its
// event streams; and it writes the answers that the filter gives itself.
//
// It must not know policies, the ledger or the proxy. Everything works on bytes,
// appends to a caller's buffer and keeps no reference to a body beyond the call,
// unless it says so.
package mcp
