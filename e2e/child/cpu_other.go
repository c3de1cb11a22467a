//go:build !linux

package child

import (
	"errors"
	"time"
)

// CPU is measured on Linux only.
func CPU(int) (time.Duration, error) {
	return 0, errors.New("CPU time of a process: read on Linux only")
}
