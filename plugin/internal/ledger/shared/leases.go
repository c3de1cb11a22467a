package shared

import "github.com/callonce/callonce/plugin/internal/ledger"

// opened are the leases that this worker has won and not yet settled. A
// settlement can be lost to a fault of our own, in the stream or in here: what is left
// over then is found at the next tick, which never runs inside another call.
//
// Few are searched one after the other, which costs less than any index. Of many, a tick
// asks for each, and so there is one.
type opened struct {
	list   []openLease
	fences []uint64          // of the same, close together, to search in
	at     map[leaseName]int // of the same, nil for few
	looked int               // leases that searches have looked at, ever
}

// leaseName is what tells one lease from all others.
type leaseName struct {
	id    [32]byte
	fence uint64
}

func nameOf(h *ledger.Lease) leaseName { return leaseName{h.ID, h.Fence} }

// fewLeases is up to how many no index is kept.
const fewLeases = 64

type openLease struct {
	lease ledger.Lease
	token ledger.Token
	stage openStage
}

type openStage uint8

const (
	claiming openStage = iota // the table has not said yet that the claim is won
	running                   // the stream has it
	settling                  // the stream has settled it, the table has not taken that yet
)

func (o *opened) add(h ledger.Lease, t ledger.Token) {
	o.list = append(o.list, openLease{h, t, claiming})
	o.fences = append(o.fences, h.Fence)
	switch {
	case o.at != nil:
		o.at[nameOf(&h)] = len(o.list) - 1
	case len(o.list) > fewLeases:
		o.at = make(map[leaseName]int, 2*fewLeases)
		for i := range o.list {
			o.at[nameOf(&o.list[i].lease)] = i
		}
	}
}

// find gives the index of a lease, -1 where there is none. The latest is often the one.
func (o *opened) find(id *[32]byte, fence uint64) int {
	if o.at != nil {
		o.looked++
		if i, ok := o.at[leaseName{*id, fence}]; ok {
			return i
		}
		return -1
	}
	o.looked += len(o.fences)
	for i := len(o.fences) - 1; i >= 0; i-- {
		if o.fences[i] == fence && o.list[i].lease.ID == *id {
			return i
		}
	}
	return -1
}

func (o *opened) get(id *[32]byte, fence uint64) *openLease {
	if i := o.find(id, fence); i >= 0 {
		return &o.list[i]
	}
	return nil
}

func (o *opened) stage(h *ledger.Lease, st openStage) {
	if p := o.get(&h.ID, h.Fence); p != nil {
		p.stage = st
	}
}

func (o *opened) remove(id *[32]byte, fence uint64) {
	i := o.find(id, fence)
	if i < 0 {
		return
	}
	last := len(o.list) - 1
	switch {
	case o.at == nil:
	case last <= fewLeases/2:
		o.at = nil
	default:
		delete(o.at, leaseName{*id, fence})
		if i != last {
			o.at[nameOf(&o.list[last].lease)] = i
		}
	}
	o.list[i], o.fences[i] = o.list[last], o.fences[last]
	o.list[last] = openLease{}
	o.list, o.fences = o.list[:last], o.fences[:last]
}

// ownsLease reports whether this worker still has to do with an entry of its own.
func (s *Shared) ownsLease(id *[32]byte, fence uint64) bool {
	if s.open.get(id, fence) != nil {
		return true
	}
	for i := range s.pending {
		if s.pending[i].lease.Fence == fence && s.pending[i].lease.ID == *id {
			return true
		}
	}
	return false
}

// Forget implements ledger.Store: nothing waits here, but a lease that the stream never
// settled is lost.
func (s *Shared) Forget(t ledger.Token) {
	for i := range s.open.list {
		if o := &s.open.list[i]; o.token == t {
			s.reclaim(*o)
			s.retry()
			return
		}
	}
}

// OpenLeases gives the number of leases that streams of this worker have.
func (s *Shared) OpenLeases() int { return len(s.open.list) }

// reclaimLost ends the leases whose streams are gone, and those that a fault left half
// way.
func (s *Shared) reclaimLost() {
	for i := len(s.open.list) - 1; i >= 0; i-- {
		o := s.open.list[i]
		if o.stage != running || s.env.Live != nil && !s.env.Live(o.token) {
			s.reclaim(o)
		}
	}
}

// reclaim ends a lease in its stream's stead. A claim that nobody was told of has
// certainly not run.
func (s *Shared) reclaim(o openLease) {
	ev := ledger.LoseLease
	if o.stage == claiming {
		ev = ledger.Release
	}
	s.pending = append(s.pending, pendingSettle{lease: o.lease, event: ev, why: ledger.Why{Cause: ledger.HolderLost}})
	s.open.remove(&o.lease.ID, o.lease.Fence)
}
