package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// Case 30, its end: a hundred changes of the configuration, with calls between them. No
// call is refused, though all that was replaced still drains; and when that is over,
// memory is what it was.
func TestHundredChanges(t *testing.T) {
	for _, drain := range []time.Duration{time.Second, time.Hour} {
		t.Run(fmt.Sprint("drained after ", drain), func(t *testing.T) {
			const workers = 4
			f := simulator{adjust: func(c *hostsim.Config) { c.Workers, c.DrainTime = workers, drain }}
			c, u, p, clock := timed(t, f, plain, asJSON)
			wantFirst(t, c.call("1", "charge", `{}`, "old", on(0)...))
			var half int64
			for round := 1; round <= 100; round++ {
				p.Change(t, changed(round), false)
				for worker := range workers {
					key := fmt.Sprint("r", round, "-", worker)
					wantFirst(t, c.call("1", "charge", `{}`, key, on(worker)...))
					wantReplay(t, c.call("2", "charge", `{}`, key, on((worker+1)%workers)...))
				}
				clock.Advance(1500 * time.Millisecond)
				if round == 50 {
					half = p.Memory(t)
				}
			}
			wantReplay(t, c.call("3", "charge", `{}`, "old", on(1)...))
			wantRuns(t, u, 1+100*workers)
			slots := 0
			for _, key := range p.host.Store().Keys(vmID) {
				if strings.Contains(key, "/h/") {
					slots++
				}
			}
			if slots > 3*workers {
				t.Errorf("%d worker slots in shared data, for %d workers", slots, workers)
			}
			// Where nothing has drained yet, a hundred configurations are at work.
			if now := p.Memory(t); drain < time.Minute && now > half+half/8 {
				t.Errorf("the VMs' memory grew from %d bytes after 50 changes to %d after 100", half, now)
			}
		})
	}
}
