//go:build !linux

package envoytest

import "errors"

// Resident is measured on Linux only.
func (e *Envoy) Resident() (int64, error) {
	return 0, errors.New("resident memory of a process: read on Linux only")
}
