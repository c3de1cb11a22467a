// Package quota keeps what limits allow: rows of counts for each policy, principal and scope, in pages of shared data, and what one worker
// has cached of them for its next claims. It does not know what is counted: a change of a row is all it sees.
//
// A row is at any instant at least what the buckets hold, since quota is reserved before a bucket says so and returned after: limits are never
// exceeded. A crash leaves a row too high; the recount puts it right (recount.go).
package quota
