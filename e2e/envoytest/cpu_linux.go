package envoytest

import (
	"fmt"
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
