package conformance

import (
	"fmt"
	"testing"
)

// The filter takes out what it sent itself to be woken: what stays in a queue stays for
// good. The first requests of each worker wake it.
func TestWakeQueueIsDrained(t *testing.T) {
	u := newUpstream(t, asJSON)
	woken := 0
	for round := range 3 {
		p := simulator{}.start(t, Setup{Config: plain, Upstream: u.URL, Workers: 2, NoHoldHeaders: round == 2})
		c := newClient(t, p)
		for i := range 8 {
			wantFirst(t, c.call("1", "charge", `{}`, fmt.Sprint("k", round, "-", i)))
		}
		eventually(t, "the queues to be empty", func() bool {
			waiting, sent := p.host.Queued()
			woken = max(woken, sent)
			return waiting == 0
		})
	}
	if woken == 0 {
		t.Error("nothing was ever sent to a queue")
	}
}
