//go:build !smalltable

package boot

import "github.com/callonce/callonce/plugin/internal/ledger/shared"

var layout = shared.DefaultLayout

// MostHeadsBuffered bounds, softly, the bytes of request headers that a binding buffers in one VM while their requests wait: a VM of Envoy's dies
// at 1 GiB, and Go's collector lets what lives grow to twice its size.
const MostHeadsBuffered = 192 << 20
