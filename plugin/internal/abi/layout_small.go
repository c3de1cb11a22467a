//go:build smalltable

package abi

import "github.com/callonce/callonce/plugin/internal/ledger"

// A handful of buckets, for tests that want every key to meet every other.
var layout = ledger.Layout{Buckets: 2, Ways: 64, PieceBytes: 256}

const mostHeadsBuffered = 1 << 20
