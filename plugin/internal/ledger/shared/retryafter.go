package shared

import (
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/quota"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
)

// A refusal for want of room says when to come again. No record but the buckets knows when
// entries end, and the sweep reads them all: it writes down what it saw, beside each page,
// for the rows of that page.

// The bounds of what a refusal says.
const (
	leastRetry = time.Second
	mostRetry  = 24 * time.Hour
)

// passTime is how long after its end an entry may still count: until the sweep comes by,
// with a tick a second.
func (s *Shared) passTime() time.Duration {
	l := s.layout
	return time.Duration((l.Buckets+2*l.Pages+l.SweepSteps-1)/l.SweepSteps) * time.Second
}

// retryAfter says when a level that was full for a claim may have room again.
func (s *Shared) retryAfter(r *quota.Reservation, rows *quota.Rows, c *ledger.Claim, now ledger.Mono) time.Duration {
	if r.Passing || r.Evict && c.Limits.OnFullEvict && r.Settled[r.Level] > 0 {
		// A call that ends gives room, or the next tick lets something be evicted.
		return leastRetry
	}
	d := s.quota.Due(rows[r.Level])
	at := d.Entry
	if r.Tombs {
		at = d.Tombstone
	}
	wait := max(c.Terms.TTL, c.Terms.Window)
	if at != 0 {
		wait = time.Duration(max(at-now, 0))
	}
	// Where the last pass saw none that ends, all there are have come since.
	return min(max(wait+s.passTime(), leastRetry), mostRetry)
}

// retryBucket says when a full bucket has room: a claim frees what has ended by itself.
func retryBucket(b record.Bucket, c *ledger.Claim, now ledger.Mono) time.Duration {
	var d record.Due
	b.Each(func(w record.Entry) bool {
		switch e := record.Current(w); {
		case e.Readable():
			d = quota.Sooner(d, quota.DueOf(e.State(), e.ExpiresAt()))
		default:
			d = quota.Sooner(d, record.Due{Entry: max(e.ExpiresAt(), 1)})
		}
		return true
	})
	wait := max(c.Terms.TTL, c.Terms.Window)
	if d.Entry != 0 {
		wait = time.Duration(d.Entry - now)
	}
	return min(max(wait, leastRetry), mostRetry)
}
