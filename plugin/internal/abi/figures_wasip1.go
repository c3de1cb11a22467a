//go:build figures

package abi

import (
	"runtime"
	"strconv"
)

// The filter that measures itself, for tests; the module that ships has none of this. Before each stream it logs what it has allocated
// so far, and how many bytes the host has handed over: the difference of two such lines is what the stream between them cost.

// bytesIn is how many bytes the host asked room for.
var bytesIn int

func countIn(size int) { bytesIn += size }

var (
	figuresStats runtime.MemStats
	figuresLine  [128]byte
)

func tellFigures() {
	runtime.ReadMemStats(&figuresStats)
	b := append(figuresLine[:0], "figures "...)
	b = append(strconv.AppendUint(b, figuresStats.Mallocs, 10), ' ')
	b = append(strconv.AppendUint(b, figuresStats.TotalAlloc, 10), ' ')
	b = strconv.AppendInt(b, int64(bytesIn), 10)
	logText(logWarn, text(b))
}
