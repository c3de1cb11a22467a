// Package ledger remembers what happened before: which keys are in flight, which
// are completed and with what answer, and which must never run again.
//
// It must not know MCP, policies or proxies. What an answer means is a pure function
// of entry, claim and time (state.go), the same for every store; a store only has to
// make one compare-and-swap per key atomic. RATIONALE.md says why the records look
// as they do.
package ledger
