package etcd

import (
	"maps"
	"slices"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// self is what the worker is to the others, and the leases that it has.
type self struct {
	incarnation uint64 // 0 = none: nothing is claimed
	enlisting   bool
	alive       lease
	running     lease
	longest     time.Duration // that running has been granted for
	older       []*lease      // of records in flight from before a longer ttl was asked for
	kept        map[time.Duration]*kept
}

// lease is one that is kept alive.
type lease struct {
	id     int64       // 0 = none
	signed ledger.Mono // when the last sign of life was sent that etcd has confirmed
	trying bool
}

// kept are the leases of settled records of one ttl; only the newest counts.
type kept struct {
	id      int64
	granted ledger.Mono // when it was asked for: it may last from then
	trying  bool
}

// stepOf is how much longer than its ttl an entry may be kept, so that one lease serves many.
func stepOf(ttl time.Duration) time.Duration { return max(time.Minute, ttl/8) }

// use notes a ttl. The tick gets the leases for it.
func (s *Store) use(ttl time.Duration) {
	if s.self.kept[ttl] == nil {
		s.self.kept[ttl] = &kept{}
	}
}

// ready says that a claim may be made whose entry lasts for ttl: all leases are there, and last for long enough.
func (s *Store) ready(ttl time.Duration) bool {
	s.use(ttl)
	me := &s.self
	return me.incarnation != 0 && ttl <= me.longest && me.running.id != 0 && s.keptFor(ttl) != 0 &&
		s.env.Now()-me.running.signed < ledger.Mono(s.opts.Lease) && s.env.Now()-me.alive.signed < ledger.Mono(s.opts.Lease)
}

// keptFor is the lease for a settled record, 0 where none lasts for long enough.
func (s *Store) keptFor(ttl time.Duration) int64 {
	k := s.self.kept[ttl]
	if k == nil || k.id == 0 || s.env.Now()-k.granted > ledger.Mono(stepOf(ttl)) {
		return 0
	}
	return k.id
}

// lapsed is said where etcd does not know the worker any more: it was silent for too long. It claims again as another.
func (s *Store) lapsed() {
	s.leasesGone() // perhaps: the tick asks
	s.self.incarnation, s.self.alive = 0, lease{}
}

// leasesGone is said where a transaction names a lease that etcd does not know: it has lost its memory, or the clock was stepped. Which
// one it is the tick finds out; of those that are never kept alive it gets new ones.
func (s *Store) leasesGone() {
	me := &s.self
	me.alive.signed, me.running.signed = longAgo, longAgo
	for _, k := range me.kept {
		k.id = 0
	}
}

const longAgo = ledger.Mono(-1 << 62)

// holderValue is what operators read of a worker.
func (s *Store) holderValue() []byte { return []byte("callonce " + s.opts.Holder) }

// Tick implements ledger.Store: signs of life, leases ahead, and what etcd has not answered.
func (s *Store) Tick(now ledger.Mono) {
	me := &s.self
	if s.env.Local != nil {
		s.env.Local.Tick(now)
	}
	s.report()
	s.forgetGone()
	s.overdue(now)
	s.probe()
	if me.incarnation == 0 {
		s.enlist()
	} else {
		s.sign(&me.alive, s.lapsed)
	}
	longest := time.Duration(0)
	for ttl := range me.kept {
		longest = max(longest, ttl)
	}
	switch {
	case me.running.id == 0 || longest > me.longest:
		s.grant(&me.running.trying, s.opts.Lease+longest, func(id int64) {
			if me.running.id != 0 {
				old := me.running
				old.trying = false
				me.older = append(me.older, &old)
			}
			me.running = lease{id: id, signed: now}
			me.longest = longest
		})
	default:
		s.sign(&me.running, func() { me.running = lease{} })
	}
	for _, l := range me.older {
		s.sign(l, func() { l.id = 0 })
	}
	me.older = slices.DeleteFunc(me.older, func(l *lease) bool { return l.id == 0 })
	for _, ttl := range slices.Sorted(maps.Keys(me.kept)) {
		k := me.kept[ttl]
		// Half a step ahead, so that there is always one.
		if k.id == 0 || now-k.granted >= ledger.Mono(stepOf(ttl)/2) {
			s.grant(&k.trying, ttl+stepOf(ttl), func(id int64) { k.id, k.granted = id, now })
		}
	}
	if !s.down() {
		s.retry()
	}
}

// enlist makes the worker known under a new incarnation.
func (s *Store) enlist() {
	me := &s.self
	now := s.env.Now()
	s.grant(&me.enlisting, s.opts.Lease, func(id int64) {
		incarnation := s.number()
		key := s.holderKey(incarnation)
		var x txn
		x.compare(key, targetCreate, equal, 0)
		x.then(opPut(key, s.holderValue(), id))
		me.enlisting = s.txn(&x, func(r *txnResponse) {
			me.enlisting = false
			if r != nil && r.succeeded {
				me.incarnation, me.alive = incarnation, lease{id: id, signed: now}
			}
		})
	})
}

// grant asks for a lease, unless that is being done.
func (s *Store) grant(trying *bool, d time.Duration, done func(id int64)) {
	if *trying {
		return
	}
	*trying = s.call(ServiceLease, MethodGrant, grantRequest(seconds(d)), s.opts.Timeout, func(status int, message []byte) {
		*trying = false
		if r, ok := decodeLease(message); status == 0 && ok && r.id != 0 {
			done(r.id)
		}
	})
}

// sign keeps a lease alive, at each third of Options.Lease. lost is called where etcd has no such lease any more.
func (s *Store) sign(l *lease, lost func()) {
	now := s.env.Now()
	if l.trying || now-l.signed < ledger.Mono(s.opts.Lease/3) {
		return
	}
	id := l.id
	l.trying = s.call(ServiceLease, MethodKeepAlive, keepAliveRequest(id), s.opts.Timeout, func(status int, message []byte) {
		if l.id != id {
			return
		}
		l.trying = false
		switch r, ok := decodeLease(message); {
		case status != 0 || !ok || r.id != id:
		case r.ttl <= 0:
			lost()
		default:
			l.signed = now
		}
	})
}

// seconds rounds up: a lease never ends before its time.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
