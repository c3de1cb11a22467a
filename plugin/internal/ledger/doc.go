// Package ledger is the contract between the guard and what remembers which keys are in
// flight, which are completed and with what answer, and which must never run again. It
// must not know MCP, policies or proxies, and holds no code; docs/ledger.md says how the
// contract is kept in shared data.
//
//	state   what a claim is answered and what an event makes of an entry: pure, for every store
//	record  the bytes of the records in shared data
//	cells   reading and swapping them
//	quota   what limits allow: pages of counts, and what a worker has cached of them
//	shared  the store in shared data
package ledger
