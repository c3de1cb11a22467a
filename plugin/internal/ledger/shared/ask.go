package shared

import (
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/cells"
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
	key := s.bucketKey(s.bucketOf(&c.ID))
	for range cells.MaxTries {
		b, cas, ok := s.read(key)
		if !ok {
			break
		}
		now := s.env.Now()
		old := b.Find(&c.ID)
		f := found(old, &c.Fingerprint)
		if f.State == ledger.InFlight && s.orphaned(old, now) {
			if !s.expireLease(key, b, cas, old, now) {
				break
			}
			continue
		}
		p := state.PlanClaim(&f, &c, now)
		if p.Verdict != ledger.First {
			return s.refused(p.Verdict, old), true
		}
		rows := quota.RowsOf(c.Policy, c.Principal, c.Scope)
		if p.Free != (state.Counts{}) && rowsOf(old) == rows {
			p = p.InPlace()
		}
		a := s.claim(&claim{Claim: &c, token: t, key: key, bucket: b, cas: cas, old: old, plan: p, rows: rows, now: now})
		if a.Verdict != again {
			return a, true
		}
	}
	return unavailable, true
}

// claim is one try of a claim that the bucket, as it was read, allows.
type claim struct {
	*ledger.Claim
	token  ledger.Token
	key    string
	bucket record.Bucket
	cas    uint32       // of the bucket
	old    record.Entry // in whose place the new one comes, if any
	plan   state.Plan
	rows   quota.Rows
	now    ledger.Mono
}

// refused answers with what an entry says.
func (s *Shared) refused(v ledger.Verdict, e record.Entry) ledger.Answer {
	a := ledger.Answer{Verdict: v}
	if e.Readable() {
		a.Prior = e.Prior()
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
func (s *Shared) claim(c *claim) ledger.Answer {
	if !s.renew(ledger.Mono(c.Terms.LeaseTTL), c.now) {
		return ledger.Answer{Verdict: ledger.RefusedUnavailable}
	}
	epoch := c.bucket.Epoch()
	a := ledger.Answer{Verdict: ledger.First, Lease: ledger.Lease{
		ID: c.ID, Fence: c.bucket.Fence() + 1, Holder: s.self.incarnation, Claimed: c.now, Attempt: c.plan.Attempt,
		Policy: c.Policy, Budget: c.Budget, Limits: c.Limits, Terms: c.Terms,
	}}
	if c.plan.TakeOver {
		a.Prior = c.old.Prior()
	}
	buf, ways := record.AppendOthers(record.AppendBucket(s.buf[:0], epoch, a.Lease.Fence), c.bucket, &c.ID)
	s.buf = record.AppendClaim(buf, c.Claim, &a.Lease)
	if ways >= s.layout.Ways {
		return s.bucketFull(c)
	}
	if r := s.quota.Reserve(&c.rows, c.plan.Need, &c.Limits, epoch); !r.Got {
		return s.noRoom(c, &r)
	}
	s.open.add(a.Lease, c.token)
	won, err := s.cells.Set(c.key, s.buf, c.cas)
	switch {
	case err != nil:
		// It may have been written all the same: the next tick looks, and what was reserved stays
		// reserved until then.
		return ledger.Answer{Verdict: ledger.RefusedUnavailable}
	case !won:
		s.open.remove(&c.ID, a.Lease.Fence)
		s.quota.Return(&c.rows, c.plan.Need, nil, epoch)
		return ledger.Answer{Verdict: again}
	}
	s.open.stage(&a.Lease, running)
	if c.plan.Free != (state.Counts{}) {
		rows := rowsOf(c.old)
		s.quota.Return(&rows, c.plan.Free, nil, epoch)
	}
	return a
}

// noRoom says why nothing could be reserved. Where it could make room the claim starts again.
func (s *Shared) noRoom(c *claim, r *quota.Reservation) ledger.Answer {
	switch {
	case r.Stale:
		return ledger.Answer{Verdict: again}
	case r.Failed:
		return ledger.Answer{Verdict: ledger.RefusedUnavailable}
	case s.quota.ReturnCached(true), r.Evict && c.Limits.OnFullEvict && s.evict(r, c.Claim, c.now):
		return ledger.Answer{Verdict: again}
	}
	return ledger.Answer{Verdict: ledger.RefusedCapacity, RetryAfter: s.retryAfter(r, &c.rows, c.Claim, c.now)}
}

// bucketFull frees what has expired in a bucket that takes no more. A second bucket
// for its keys would break the rule that one compare-and-swap decides.
func (s *Shared) bucketFull(c *claim) ledger.Answer {
	freed, ok := s.purge(c.key, c.bucket, c.cas, c.now)
	switch {
	case !ok:
		return ledger.Answer{Verdict: ledger.RefusedUnavailable}
	case freed:
		return ledger.Answer{Verdict: again}
	}
	s.tell(ledger.BucketFull, c.Policy)
	return ledger.Answer{Verdict: ledger.RefusedCapacity, RetryAfter: retryBucket(c.bucket, c.Claim, c.now)}
}

// expireLease turns a call in flight whose holder is gone into an unknown outcome. ok is
// false where the table cannot be written; a lost race is none of that.
func (s *Shared) expireLease(key string, b record.Bucket, cas uint32, e record.Entry, now ledger.Mono) (ok bool) {
	lost, _ := state.Turn(ledger.InFlight, ledger.LoseLease)
	id := e.ID()
	buf, _ := record.AppendOthers(record.AppendBucket(s.buf[:0], b.Epoch(), b.Fence()), b, &id)
	s.buf, _ = appendTurned(buf, e, lost.Next, now)
	done, err := s.cells.Set(key, s.buf, cas)
	if err != nil {
		return false
	}
	if done {
		rows := rowsOf(e)
		s.quota.Return(&rows, lost.Return, nil, b.Epoch())
		s.tell(ledger.Orphaned, e.Policy())
	}
	return true
}
