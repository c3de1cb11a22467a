// Package operator is the interface at which operators see and resolve keys: it reads what was asked, by a path and a query, and
// writes what is answered. It must know neither a proxy nor a store: it deals in the ledger's types.
package operator
