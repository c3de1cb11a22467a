package shared

import (
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/quota"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// again is what a step of a claim says when the bucket has changed since it was read, or something was freed: read it anew.
const again ledger.Verdict = 255

// Ask implements ledger.Store. It always answers at once.
//
// A claim is: read the bucket, plan, renew the heartbeat, reserve, swap with the cas of the reading, and return
// what was reserved in vain or what the entry before used. Between the reading and the swap nothing may have changed.
func (s *Shared) Ask(t ledger.Token, c ledger.Claim) (ledger.Answer, bool) {
	unavailable := ledger.Answer{Verdict: ledger.RefusedUnavailable}
	if c.Terms.LeaseTTL <= 0 {
		return unavailable, true
	}
	for range record.MaxTries {
		b := s.buckets.Lookup(&c.ID)
		if !b.OK() {
			break
		}
		now := s.env.Now()
		f := found(b.Entry, &c.Fingerprint)
		if f.State == ledger.InFlight && s.orphaned(b.Entry, now) {
			if !s.expireLease(&b, now) {
				break
			}
			continue
		}
		p := state.PlanClaim(&f, &c, now)
		if p.Verdict != ledger.First {
			a := s.refused(p.Verdict, b.Entry)
			a.At = now
			return a, true
		}
		rows := quota.RowsOf(c.Policy, c.Principal, c.Scope)
		if p.Free != (state.Counts{}) && rowsOf(b.Entry) == rows {
			p = p.InPlace()
		}
		a := s.claim(&c, &try{token: t, read: b, plan: p, rows: rows, now: now})
		if a.Verdict != again {
			return a, true
		}
	}
	return unavailable, true
}

// try is one try of a claim that the bucket, as it was read, allows. (Without the claim itself, which would escape to the heap in it.)
type try struct {
	token ledger.Token
	read  record.Reading
	plan  state.Plan
	rows  quota.Rows
	now   ledger.Mono
}

// refused answers with what an entry says.
func (s *Shared) refused(v ledger.Verdict, e record.Entry) ledger.Answer {
	a := ledger.Answer{Verdict: v}
	if e.Readable() {
		a.Prior = e.Prior()
	}
	if v == ledger.Replay && e.Flags()&record.FlagElsewhere != 0 {
		a.Reply.Elsewhere = true
		return a
	}
	if v == ledger.Replay {
		if a.Reply, _ = s.fetch(e); a.Reply.Message == nil {
			// Overwritten since: the call ran all the same.
			a.Verdict = ledger.RefusedNotReplayable
		}
	}
	return a
}

// claim reserves, swaps, and compensates.
func (s *Shared) claim(c *ledger.Claim, y *try) ledger.Answer {
	if !s.renew(ledger.Mono(c.Terms.LeaseTTL), y.now) {
		return ledger.Answer{Verdict: ledger.RefusedUnavailable}
	}
	epoch := y.read.Epoch
	a := ledger.Answer{Verdict: ledger.First, Lease: ledger.Lease{
		ID: c.ID, Fence: y.read.Fence + 1, Holder: s.self.incarnation, Claimed: y.now, Attempt: y.plan.Attempt, Root: c.Root,
		Policy: c.Policy, Budget: c.Budget, Limits: c.Limits, Terms: c.Terms,
	}}
	a.At = y.now
	if y.plan.TakeOver {
		a.Prior = y.read.Entry.Prior()
	}
	var others int
	s.buf, others = record.AppendClaimed(s.buf[:0], y.read.Bucket, c, &a.Lease)
	if others >= s.layout.Ways {
		return s.bucketFull(c, y)
	}
	if r := s.quota.Reserve(&y.rows, y.plan.Need, &c.Limits, epoch); !r.Got {
		return s.noRoom(c, y, &r)
	}
	s.open.add(a.Lease, y.token)
	won, err := s.buckets.Swap(&y.read, s.buf)
	switch {
	case err != nil:
		// It may have been written all the same: the next tick looks, and what was reserved stays
		// reserved until then.
		return ledger.Answer{Verdict: ledger.RefusedUnavailable}
	case !won:
		s.open.remove(&c.ID, a.Lease.Fence)
		s.quota.Return(&y.rows, y.plan.Need, nil, epoch)
		return ledger.Answer{Verdict: again}
	}
	s.open.stage(&a.Lease, running)
	if y.plan.Free != (state.Counts{}) {
		rows := rowsOf(y.read.Entry)
		s.quota.Return(&rows, y.plan.Free, nil, epoch)
	}
	return a
}

// noRoom says why nothing could be reserved. Where it could make room the claim starts again.
func (s *Shared) noRoom(c *ledger.Claim, y *try, r *quota.Reservation) ledger.Answer {
	switch {
	case r.Stale:
		return ledger.Answer{Verdict: again}
	case r.Failed:
		return ledger.Answer{Verdict: ledger.RefusedUnavailable}
	case s.quota.ReturnCached(true), r.Evict && c.Limits.OnFullEvict && s.evict(r, c, y.now):
		return ledger.Answer{Verdict: again}
	}
	return ledger.Answer{Verdict: ledger.RefusedCapacity, RetryAfter: s.retryAfter(r, &y.rows, c, y.now)}
}

// bucketFull frees what has expired in a bucket that takes no more. A second bucket
// for its keys would break the rule that one compare-and-swap decides.
func (s *Shared) bucketFull(c *ledger.Claim, y *try) ledger.Answer {
	freed, ok := s.purge(&y.read, y.now)
	switch {
	case !ok:
		return ledger.Answer{Verdict: ledger.RefusedUnavailable}
	case freed:
		return ledger.Answer{Verdict: again}
	}
	s.tell(ledger.BucketFull, c.Policy)
	return ledger.Answer{Verdict: ledger.RefusedCapacity, RetryAfter: retryBucket(y.read.Bucket, c, y.now)}
}

// expireLease turns a call in flight whose holder is gone into an unknown outcome. ok is
// false where the table cannot be written; a lost race is none of that.
func (s *Shared) expireLease(b *record.Reading, now ledger.Mono) (ok bool) {
	e := b.Entry
	lost, _ := state.Turn(ledger.InFlight, ledger.LoseLease)
	s.buf = record.AppendSettled(s.buf[:0], b.Bucket, e, turned(e, lost.Next, now, ledger.Why{Cause: ledger.HolderLost}), nil)
	done, err := s.buckets.Swap(b, s.buf)
	if err != nil {
		return false
	}
	if done {
		rows := rowsOf(e)
		s.quota.Return(&rows, lost.Return, nil, b.Epoch)
		s.tell(ledger.Orphaned, e.Policy())
	}
	return true
}
