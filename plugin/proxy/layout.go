//go:build !smalltable

package proxy

import "github.com/callonce/callonce/plugin/ledger"

var layout = ledger.DefaultLayout
