package abi

import (
	"unsafe"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// WASI preview 1. The monotonic clock is read from the host itself: Go's own is
// counted from each VM's start, and the ledger needs one that all workers share.
const (
	clockRealtime  = 0
	clockMonotonic = 1
)

//go:wasmimport wasi_snapshot_preview1 clock_time_get
//go:noescape
func clockTimeGet(clock uint32, precision uint64, into unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 random_get
//go:noescape
func randomGet(into unsafe.Pointer, size uint32) uint32

func now() ledger.Mono {
	var t uint64
	if clockTimeGet(clockMonotonic, 1, unsafe.Pointer(&t)) != 0 {
		panic("the host has no monotonic clock")
	}
	return ledger.Mono(t)
}

// wall is the time of day, in nanoseconds since 1970; 0 where the host has none.
func wall() int64 {
	var t uint64
	if clockTimeGet(clockRealtime, 1, unsafe.Pointer(&t)) != 0 {
		return 0
	}
	return int64(t)
}

func random(into []byte) {
	if randomGet(unsafe.Pointer(unsafe.SliceData(into)), uint32(len(into))) != 0 {
		panic("the host has no random numbers")
	}
}
