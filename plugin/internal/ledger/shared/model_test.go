package shared

import (
	"slices"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/modeltest"
	"github.com/callonce/callonce/plugin/internal/ledger/quota"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// modelled is a world under the model, with the words on what shared data alone promises: limits, replies in a ring, a sweep.
type modelled struct {
	*world
	limits  [2]ledger.Limits
	last    [2]ledger.Mono // heartbeats
	retired [2]bool        // a worker without leases at its tick: it has no slot until it claims
	rings   [2]modelRing
	replies map[*modeltest.Entry]*modelReply
	sweeper int
	swept   ledger.Mono
	begun   bool
}

const modelPieces = 5

var modelLayout = Layout{Buckets: 4, Ways: 64, PieceBytes: 64, Pages: 3, Holders: 4, SweepSteps: 100}

// modelReply is where an entry's reply lies.
type modelReply struct {
	shed, has bool
	at, lap   int
}

// modelRing is who lies in which piece, and the cursor.
type modelRing struct {
	owner     map[int]*modelReply
	next, lap int
}

func (r *modelRing) write(e *modelReply, size int) {
	need := min(max((size+modelLayout.PieceBytes-1)/modelLayout.PieceBytes, 1), modelPieces)
	if r.next+need > modelPieces {
		r.next, r.lap = 0, r.lap+1
	}
	e.at, e.lap, e.has = r.next, r.lap, true
	for i := range need {
		if r.owner == nil {
			r.owner = map[int]*modelReply{}
		}
		r.owner[r.next+i] = nil
	}
	r.owner[r.next] = e
	r.next += need
}

func openModelled(t *rapid.T) modeltest.Store {
	w := newWorld(rapid.Uint64().Draw(t, "seed"), modelLayout, 2)
	m := &modelled{world: w, replies: map[*modeltest.Entry]*modelReply{}}
	for _, k := range w.worker {
		k.store.register(ledger.Mono(5*time.Second), w.now)
		m.last[k.n] = w.now
	}
	m.limits = [2]ledger.Limits{drawLimits(t), drawLimits(t)}
	return m
}

func (m *modelled) Now() ledger.Mono { return m.now }

func (m *modelled) Pass(d time.Duration) {
	m.now += ledger.Mono(d)
	for _, k := range m.worker {
		k.store.scans = 1000
	}
}

func (m *modelled) Claim(t *rapid.T, key int) ledger.Claim {
	c := claimOf(key)
	if key%5 == 4 {
		c.Policy, c.Budget.Ring = numberOf("q"), 1
	}
	c.Limits = m.limits[rapid.IntRange(0, 1).Draw(t, "configuration")]
	c.Budget.Bytes = modelPieces * modelLayout.PieceBytes
	return c
}

func (m *modelled) Ask(_ *rapid.T, worker int, c ledger.Claim) (ledger.Token, ledger.Answer) {
	m.watch.allow(&c)
	k := m.worker[worker]
	a := k.ask(c)
	if a.Verdict != ledger.First {
		return ledger.Token{}, a
	}
	return k.streams[len(k.streams)-1].token, a
}

func (m *modelled) Settle(_ *rapid.T, worker int, l ledger.Lease, o ledger.Outcome) ledger.Settled {
	return m.worker[worker].store.Settle(l, o)
}

func (m *modelled) Ended(s *modeltest.Stream, _ bool) {
	k := m.worker[s.Worker]
	k.streams = slices.DeleteFunc(slices.Clone(k.streams), func(f *flow) bool { return f.token == s.Token })
}

func (m *modelled) Tick(worker int) { m.worker[worker].tick() }

func (m *modelled) Ready(int) bool { return true }

func (m *modelled) Change(t *rapid.T) {
	m.limits[rapid.IntRange(0, 1).Draw(t, "configuration")] = drawLimits(t)
}

func (m *modelled) orphan(e *modeltest.Entry, by int) bool {
	return e.State == ledger.InFlight && e.Holder != by && m.now-max(e.Claimed, m.last[e.Holder]) >= ledger.Mono(e.Claim.Terms.LeaseTTL)
}

// Lost: whoever meets it turns it into an unknown outcome.
func (m *modelled) Lost(_ *rapid.T, e *modeltest.Entry, by int) (lost, kept bool) {
	return m.orphan(e, by), false
}

// Over implements modeltest.Store: until the sweep an entry that has expired is still there.
func (m *modelled) Over(_ *rapid.T, e *modeltest.Entry) bool {
	return e.State != ledger.InFlight && e.Expires() <= m.now
}

func (m *modelled) Gone(*rapid.T, *modeltest.Entry) bool { return false }

func (m *modelled) reply(e *modeltest.Entry) *modelReply {
	if m.replies[e] == nil {
		m.replies[e] = &modelReply{}
	}
	return m.replies[e]
}

func (m *modelled) Kept(e *modeltest.Entry) bool {
	r := m.reply(e)
	return !r.shed && r.has && m.rings[e.Claim.Budget.Ring].owner[r.at] == r
}

// Worse: a second settlement of a completed entry makes it a tombstone, where there is room for one.
func (m *modelled) Worse(all *modeltest.Model, e *modeltest.Entry, next ledger.State) ledger.State {
	if e.State == ledger.Completed && int(used(all, &e.Claim, quota.Scope, nil).Tombs)+1 > e.Claim.Limits.TombstonesPerScope {
		next = ledger.Completed
	}
	m.replies[e] = nil
	return next
}

// Done: a late holder's reply goes into the ring all the same: it can shed, never pose.
func (m *modelled) Done(_ *modeltest.Model, e *modeltest.Entry, l *ledger.Lease, size int) {
	r := &modelReply{}
	if e != nil {
		r = m.reply(e)
	}
	m.rings[l.Budget.Ring].write(r, size)
}

func (m *modelled) Ticked(all *modeltest.Model, worker int) {
	m.last[worker], m.retired[worker] = m.now, len(m.worker[worker].streams) == 0
	if m.begun && m.sweeper != worker && m.now-m.swept < sweeperSilence {
		return
	}
	m.begun, m.sweeper, m.swept = true, worker, m.now
	for key, e := range all.Entries {
		if m.orphan(e, worker) {
			e.Become(ledger.Unknown, m.now)
			continue
		}
		if m.Over(nil, e) {
			delete(all.Entries, key)
			continue
		}
		r, ring := m.reply(e), &m.rings[e.Claim.Budget.Ring]
		if e.State == ledger.Completed && r.has && (ring.lap-r.lap > 1 || ring.lap-r.lap == 1 && ring.next > r.at) {
			r.shed = true
		}
	}
}

// used counts at a level, without one entry.
func used(m *modeltest.Model, c *ledger.Claim, level int, without *modeltest.Entry) (n state.Counts) {
	for _, e := range m.Entries {
		same := e.Claim.Policy == c.Policy
		if level == quota.Principal {
			same = same && e.Claim.Principal == c.Principal
		}
		if level == quota.Scope {
			same = same && e.Claim.Scope == c.Scope
		}
		if same && e != without {
			n.Entries++
			if e.State == ledger.InFlight {
				n.InFlight++
			}
			if e.State != ledger.Completed {
				n.Tombs++
			}
		}
	}
	return n
}

// oldest finds what to evict at a level.
func oldest(m *modeltest.Model, c *ledger.Claim, level int) *modeltest.Entry {
	var all []*modeltest.Entry
	for _, e := range m.Entries {
		if e.State == ledger.Completed && e.Claim.Policy == c.Policy &&
			(level != quota.Principal || e.Claim.Principal == c.Principal) && (level != quota.Scope || e.Claim.Scope == c.Scope) {
			all = append(all, e)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Settled < all[j].Settled })
	if len(all) == 0 {
		return nil
	}
	if level == quota.Policy {
		for _, e := range all {
			if e.Claim.Principal == c.Principal {
				return e
			}
		}
	}
	return all[0]
}

// Room says whether a claim finds room, and evicts what must be. The claim gives a sign of life where that is due.
func (m *modelled) Room(all *modeltest.Model, by, key int, c *ledger.Claim) bool {
	if m.retired[by] || m.now-m.last[by] >= ledger.Mono(c.Terms.LeaseTTL)/2 {
		m.last[by], m.retired[by] = m.now, false
	}
again:
	old := all.Entries[key]
	for level := range quota.Levels {
		n, limit := used(all, c, level, old), quota.Caps(&c.Limits, level)
		was := state.Counts{}
		if old != nil {
			was = state.Uses(old.State)
		}
		over := func(used, had, limit int32) bool { return limit > 0 && had == 0 && used+1 > limit }
		if over(n.InFlight, was.InFlight, limit.InFlight) || over(n.Tombs, was.Tombs, limit.Tombs) {
			return false
		}
		if over(n.Entries, was.Entries, limit.Entries) {
			e := oldest(all, c, level)
			if !c.Limits.OnFullEvict || e == nil {
				return false
			}
			delete(all.Entries, e.Key)
			goto again
		}
	}
	return true
}

func drawLimits(t *rapid.T) ledger.Limits {
	n := func(what string, most int) int { return rapid.IntRange(1, most).Draw(t, what) }
	l := ledger.Limits{Entries: n("entries", 8), InFlight: n("in flight", 5), TombstonesPerScope: n("tombstones", 3)}
	l.EntriesPerPrincipal, l.EntriesPerScope = n("entries of a principal", l.Entries), n("entries of a scope", l.Entries)
	l.InFlightPerPrincipal, l.InFlightPerScope = n("in flight of a principal", l.InFlight), n("in flight of a scope", l.InFlight)
	l.OnFullEvict = rapid.Bool().Draw(t, "evict")
	return l
}

func TestAgainstModel(t *testing.T) {
	seen := modeltest.Run(t, openModelled)
	for v := ledger.First; v <= ledger.RefusedCapacity; v++ {
		if seen[v] == 0 {
			t.Errorf("verdict %d never happened", v)
		}
	}
}

// Check checks every count: the model's, the buckets', the pages'.
func (m *modelled) Check(t *rapid.T, all *modeltest.Model) {
	if m.broken != nil {
		t.Fatal(m.broken)
	}
	want := map[uint64]state.Counts{}
	for _, e := range all.Entries {
		for _, row := range quota.RowsOf(e.Claim.Policy, e.Claim.Principal, e.Claim.Scope) {
			want[row] = want[row].Plus(state.Uses(e.State))
		}
	}
	said := m.watch.said()
	for row, c := range m.watch.truth {
		if c != want[row] {
			t.Fatalf("the buckets hold %v, the model %v", c, want[row])
		}
	}
	for row := range said {
		if said[row] != want[row] {
			t.Fatalf("a row says %v, the model %v", said[row], want[row])
		}
	}
	for row := range want {
		if said[row] != want[row] {
			t.Fatalf("a row says %v, the model %v", said[row], want[row])
		}
	}
}
