// Package etcd keeps the ledger in etcd, so that many proxies share one. It speaks etcd's own gRPC service in messages that it encodes
// itself, and decides by the ledger's state machine. It must not know the proxy: what calls etcd, and brings the answers, is a [Caller].
//
// # Keys
//
//	<prefix>k/<stored id, hex>      one record
//	<prefix>h/<incarnation, hex>    says that a worker lives, on its alive lease
//
// # Leases
//
//	alive     one for each incarnation of a worker; TTL = Options.Lease. Its end makes the calls in flight unknown outcomes.
//	running   one for each worker; TTL = Options.Lease + the longest ttl. Records in flight hang on it, so that they outlive their worker.
//	kept      one for each ttl and step of time, never kept alive; TTL = ttl + step. Settled records hang on the newest.
//
// No lease is granted while a request waits: the tick does that ahead.
//
// What it looks like to operators, and what callers get when something fails: docs/etcd.md.
package etcd
