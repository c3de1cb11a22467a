package ledger

// raced is what claim says when another worker changed the bucket in between.
const raced Verdict = 255

// Ask implements Store. It always answers at once.
func (s *Shared) Ask(t Token, c Claim) (Answer, bool) {
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits()
	}
	if c.Terms.LeaseTTL == 0 {
		c.Terms.LeaseTTL = DefaultLeaseTTL
	}
	key := s.bucketKey(s.bucketOf(&c.ID))
	for range maxTries {
		b, cas, ok := s.read(key)
		if !ok {
			break
		}
		now := s.now()
		e, found := b.find(&c.ID)
		if found && e.readable() && e.state() == InFlight && s.orphaned(e, now) {
			if !s.expireLease(key, b, cas, e, now) {
				break
			}
			continue
		}
		v := decide(e, found, &c, now)
		if v != First {
			return s.refused(v, e), true
		}
		a := s.claim(key, b, cas, e, &c, t, now)
		if a.Verdict != raced {
			return a, true
		}
	}
	return Answer{Verdict: RefusedUnavailable}, true
}

// refused answers with what an entry says.
func (s *Shared) refused(v Verdict, e entry) Answer {
	a := Answer{Verdict: v}
	if e.readable() {
		a.Prior = e.prior()
	}
	if v == Replay {
		if a.Reply, _ = s.fetch(e); a.Reply.Message == nil {
			// Shed under pressure, or overwritten: the call ran all the same.
			a.Verdict = RefusedNotReplayable
		}
	}
	return a
}

// claim reserves room, then writes the entry with the cas that the decision was read
// with, never a fresh one: between the two nothing may have changed. old is the entry
// in whose place the new one comes, if any.
func (s *Shared) claim(key string, b bucket, cas uint32, old entry, c *Claim, t Token, now Mono) Answer {
	if !s.renew(Mono(c.Terms.LeaseTTL), now) {
		return Answer{Verdict: RefusedUnavailable}
	}
	policy := s.policies.digest(c.Policy)
	h := Lease{
		ID: c.ID, Fence: b.fence() + 1, Holder: s.self.incarnation, Claimed: now, Attempt: 1, Policy: c.Policy,
		Budget: c.Budget, Limits: c.Limits, Terms: c.Terms,
	}
	a := Answer{Verdict: First}
	rows, need := rowsOf(policy, c.Principal, c.Scope), table[InFlight].counts
	var free counts
	if old != nil && old.readable() {
		free = table[old.state()].counts
		if !old.expired(now) {
			h.Attempt, a.Prior = old.attempt()+1, old.prior()
		}
		if old.rows() == rows {
			// It stays an entry; only what it uses more must be reserved.
			need, free = need.minus(free), counts{}
		}
	}
	a.Lease = h
	buf, ways := appendOthers(appendHeader(s.buf[:0], b.epoch(), h.Fence), b, &c.ID)
	s.buf = appendClaim(buf, c, policy, &h)
	if ways >= s.layout.Ways {
		return s.bucketFull(key, b, cas, c, now)
	}
	if a := s.room(&rows, need, policy, c, b.epoch(), now); a.Verdict != First {
		return a
	}
	s.open.add(h, t)
	won, err := s.table.Set(key, s.buf, cas)
	switch {
	case err != nil:
		// It may have been written all the same: the next tick looks, and the room stays
		// reserved until then.
		return Answer{Verdict: RefusedUnavailable}
	case !won:
		s.open.remove(&h.ID, h.Fence)
		s.undo(&rows, levels, need, b.epoch())
		return Answer{Verdict: raced}
	}
	s.open.stage(&h, running)
	if free != (counts{}) {
		s.returnQuota(old.rows(), free, b.epoch())
	}
	return a
}

// room reserves what a claim needs, or says why it cannot. Where it made room first, the
// claim starts again.
func (s *Shared) room(rows *levelRows, need counts, policy uint64, c *Claim, epoch uint32, now Mono) Answer {
	r := s.reserve(rows, need, &c.Limits, epoch)
	switch {
	case r.got:
		return Answer{Verdict: First}
	case r.stale:
		return Answer{Verdict: raced}
	case r.failed:
		return Answer{Verdict: RefusedUnavailable}
	case s.returnCached(true):
		return Answer{Verdict: raced}
	case r.evict && c.Limits.OnFullEvict && s.evict(&r, policy, c, now):
		return Answer{Verdict: raced}
	}
	return Answer{Verdict: RefusedCapacity, RetryAfter: s.retryAfter(&r, rows, c, now)}
}

// bucketFull frees what has expired in a bucket that takes no more. A second bucket
// for its keys would break the rule that one compare-and-swap decides.
func (s *Shared) bucketFull(key string, b bucket, cas uint32, c *Claim, now Mono) Answer {
	freed, ok := s.purge(key, b, cas, b.epoch(), now)
	switch {
	case !ok:
		return Answer{Verdict: RefusedUnavailable}
	case freed:
		return Answer{Verdict: raced}
	}
	s.tell(BucketFull, c.Policy)
	return Answer{Verdict: RefusedCapacity, RetryAfter: retryBucket(b, c, now)}
}

// expireLease turns a call in flight whose holder is gone into an unknown outcome. ok is
// false where the table cannot be written; a lost race is none of that.
func (s *Shared) expireLease(key string, b bucket, cas uint32, e entry, now Mono) (ok bool) {
	id := e.id()
	buf, _ := appendOthers(appendHeader(s.buf[:0], b.epoch(), b.fence()), b, &id)
	next := table[InFlight].next[LoseLease]
	at := len(buf)
	s.buf = append(buf, e...)
	entry(s.buf[at:]).turn(next, now)
	done, err := s.table.Set(key, s.buf, cas)
	if err != nil {
		return false
	}
	if done {
		s.returnQuota(e.rows(), table[InFlight].counts.minus(table[next].counts), b.epoch())
		s.notice(Orphaned, e)
	}
	return true
}
