package record

import (
	"testing"
	"time"
)

// Times are kept to the millisecond, rounded up: nothing ends before its time.
func TestMillisecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]uint32{
		0: 0, 1: 1, time.Millisecond - 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 1500 * time.Microsecond: 2,
		-1: 0, -time.Hour: 0, 1 << 62: 1<<32 - 1,
	} {
		if got := millis(d); got != want {
			t.Errorf("%d ns: %d ms, want %d", d, got, want)
		}
	}
}
