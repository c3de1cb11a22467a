//go:build smalltable

package boot

import "github.com/callonce/callonce/plugin/internal/ledger/shared"

// A handful of buckets, for tests that want every key to meet every other.
var layout = shared.Layout{Buckets: 2, Ways: 64, PieceBytes: 256}

// MostHeadsBuffered is little here, so that tests reach it.
const MostHeadsBuffered = 1 << 20
