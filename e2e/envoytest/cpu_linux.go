package envoytest

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the CPU time, user and system together, that all threads of Envoy have
// used since its start. It is read from the process's CPU clock, which counts the
// same as utime and stime in /proc/PID/stat but in nanoseconds, not in ticks of 10 ms.
func (e *Envoy) CPU() (time.Duration, error) {
	// As in clock_getcpuclockid(3): the complement of the process id, shifted by
	// three, and 2 for the scheduler's clock.
	clock := int32(^e.PID()<<3 | 2)
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of Envoy's process %d: %w", e.PID(), err)
	}
	return time.Duration(ts.Nano()), nil
}

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
