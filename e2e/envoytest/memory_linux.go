package envoytest

import (
	"fmt"
	"os"
)

// Resident returns Envoy's resident memory in bytes (VmRSS).
func (e *Envoy) Resident() (int64, error) {
	file := fmt.Sprintf("/proc/%d/statm", e.PID())
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	var total, resident int64
	if _, err := fmt.Sscan(string(text), &total, &resident); err != nil {
		return 0, fmt.Errorf("%s: want two numbers of pages, got %q: %w", file, text, err)
	}
	return resident * int64(os.Getpagesize()), nil
}
