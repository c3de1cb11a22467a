//go:build !linux

package main

import (
	"errors"
	"time"
)

// processCPU is measured on Linux only.
func processCPU(int) (time.Duration, error) {
	return 0, errors.New("CPU time of a process: read on Linux only")
}
