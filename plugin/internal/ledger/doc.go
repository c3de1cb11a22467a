// Package ledger remembers what happened before: which keys are in flight, which
// are completed and with what answer, and which must never run again.
//
// It must not know MCP, policies or proxies. What an answer means is a pure function
// of entry, claim and time (state.go), the same for every store; a store only has to
// make one compare-and-swap per key atomic. RATIONALE.md says why the records look
// as they do.
//
// Shared keeps it in the host's shared data, under callonce/<namespace>/:
//
//	sentinel    the salt of the hashes and the table's shape (shared.go)
//	b/<n>       buckets of entries: the compare-and-swap that decides (record.go)
//	d/<n>       when what a page counts ends, as the last sweep saw it (due.go)
//	p/<n>       pages of counts, reserved before a bucket says so (page.go, quota.go)
//	c/<n>       a ring's cursor; r/<n>/<m> the replies in it (ring.go, reply.go)
//	h/<n>       holders and their signs of life (holder.go)
//	s           who sweeps and counts again, and in which epoch (sweep.go)
package ledger
