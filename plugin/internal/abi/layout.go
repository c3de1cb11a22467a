//go:build !smalltable

package abi

import "github.com/callonce/callonce/plugin/internal/ledger"

var layout = ledger.DefaultLayout

// mostHeadsBuffered bounds headsBuffered, softly: a VM of Envoy's dies at 1 GiB, and Go's
// collector lets what lives grow to twice its size.
const mostHeadsBuffered = 192 << 20
