//go:build !linux

package envoytest

import (
	"errors"
	"time"
)

// CPU is measured on Linux only.
func (e *Envoy) CPU() (time.Duration, error) {
	return 0, errors.New("CPU time of a process: read on Linux only")
}
