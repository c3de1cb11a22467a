package boot

import (
	"time"

	"github.com/callonce/callonce/plugin/internal/policy"
)

// tickPeriod is how often each worker is woken: once a second, and more often where a
// lease is so short (it is not longer than ttl) that one late tick would end it.
func tickPeriod(c *policy.Config) time.Duration {
	const usual, shortLease = time.Second, 2 * time.Second
	period := usual
	for _, p := range c.Policies {
		if p.Lease < shortLease {
			period = min(period, p.Lease/4)
		}
	}
	return period
}

// firstTick comes early where a store outside of the proxy must be asked for leases before it can serve.
const firstTick = 20 * time.Millisecond
