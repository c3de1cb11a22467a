package shared

import (
	"flag"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/quota"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// The model: a plain map, and the contract's words as plain code. It knows no buckets,
// pages, epochs or compare-and-swap. Only one worker acts at a time.
type model struct {
	entries map[int]*modelEntry
	last    [2]ledger.Mono // heartbeats
	retired [2]bool        // a worker without leases at its tick: it has no slot until it claims
	rings   [2]modelRing
	sweeper int
	swept   ledger.Mono
	begun   bool
}

type modelEntry struct {
	key              int
	claim            ledger.Claim
	state            ledger.State
	holder           int
	attempt          int
	claimed, settled ledger.Mono
	expires          ledger.Mono
	f                *flow
	task, shed       bool
	ring, at, lap    int
	hasReply         bool
}

// modelRing is who lies in which piece, and the cursor.
type modelRing struct {
	owner     map[int]*modelEntry
	next, lap int
}

func (r *modelRing) write(e *modelEntry, size, pieces, piece int) {
	need := min(max((size+piece-1)/piece, 1), pieces)
	if r.next+need > pieces {
		r.next, r.lap = 0, r.lap+1
	}
	e.at, e.lap, e.hasReply = r.next, r.lap, true
	for i := range need {
		if r.owner == nil {
			r.owner = map[int]*modelEntry{}
		}
		r.owner[r.next+i] = nil
	}
	r.owner[r.next] = e
	r.next += need
}

func (m *model) orphan(e *modelEntry, by int, now ledger.Mono) bool {
	return e.state == ledger.InFlight && e.holder != by && now-max(e.claimed, m.last[e.holder]) >= ledger.Mono(e.claim.Terms.LeaseTTL)
}

func (m *model) markUnknown(e *modelEntry, st ledger.State, now ledger.Mono) {
	e.state, e.settled = st, now
	e.expires = now + ledger.Mono(e.claim.Terms.TTL)
	if e.claim.Terms.Window > 0 {
		e.expires = max(e.expires, e.claimed+ledger.Mono(e.claim.Terms.Window))
	}
}

func (m *model) expired(e *modelEntry, now ledger.Mono) bool {
	return e.state != ledger.InFlight && e.expires <= now
}

// used counts at a level, without one entry.
func (m *model) used(c *ledger.Claim, level int, without *modelEntry) (n state.Counts) {
	for _, e := range m.entries {
		same := e.claim.Policy == c.Policy
		if level == quota.Principal {
			same = same && e.claim.Principal == c.Principal
		}
		if level == quota.Scope {
			same = same && e.claim.Scope == c.Scope
		}
		if same && e != without {
			n.Entries++
			if e.state == ledger.InFlight {
				n.InFlight++
			}
			if e.state != ledger.Completed {
				n.Tombs++
			}
		}
	}
	return n
}

// oldest finds what to evict at a level.
func (m *model) oldest(c *ledger.Claim, level int) *modelEntry {
	var all []*modelEntry
	for _, e := range m.entries {
		if e.state == ledger.Completed && e.claim.Policy == c.Policy &&
			(level != quota.Principal || e.claim.Principal == c.Principal) && (level != quota.Scope || e.claim.Scope == c.Scope) {
			all = append(all, e)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].settled < all[j].settled })
	if len(all) == 0 {
		return nil
	}
	if level == quota.Policy {
		for _, e := range all {
			if e.claim.Principal == c.Principal {
				return e
			}
		}
	}
	return all[0]
}

// room says whether a claim finds room, and evicts what must be.
func (m *model) room(key int, c *ledger.Claim) bool {
again:
	old := m.entries[key]
	for level := range quota.Levels {
		n, limit := m.used(c, level, old), quota.Caps(&c.Limits, level)
		was := state.Counts{}
		if old != nil {
			was = state.Uses(old.state)
		}
		over := func(used, had, limit int32) bool { return limit > 0 && had == 0 && used+1 > limit }
		if over(n.InFlight, was.InFlight, limit.InFlight) || over(n.Tombs, was.Tombs, limit.Tombs) {
			return false
		}
		if over(n.Entries, was.Entries, limit.Entries) {
			e := m.oldest(c, level)
			if !c.Limits.OnFullEvict || e == nil {
				return false
			}
			delete(m.entries, e.key)
			goto again
		}
	}
	return true
}

func (m *model) ask(key int, c *ledger.Claim, by int, now ledger.Mono) (ledger.Verdict, *modelEntry) {
	e := m.entries[key]
	if e != nil && m.orphan(e, by, now) {
		m.markUnknown(e, ledger.Unknown, now)
	}
	attempt := 1
	if e != nil && !m.expired(e, now) {
		switch {
		case e.claim.Fingerprint != c.Fingerprint:
			return ledger.RefusedConflict, e
		case e.state == ledger.InFlight:
			return ledger.RefusedInFlight, e
		case e.state == ledger.Completed && (e.task && !c.TakesTasks || e.shed || !e.hasReply || m.rings[e.ring].owner[e.at] != e):
			return ledger.RefusedNotReplayable, e
		case e.state == ledger.Completed:
			return ledger.Replay, e
		case e.state == ledger.NotReplayable:
			return ledger.RefusedNotReplayable, e
		case !c.RetryUnknown:
			return ledger.RefusedUnknown, e
		}
		attempt = e.attempt + 1
	}
	if m.retired[by] || now-m.last[by] >= ledger.Mono(c.Terms.LeaseTTL)/2 {
		m.last[by], m.retired[by] = now, false
	}
	if !m.room(key, c) {
		return ledger.RefusedCapacity, nil
	}
	n := &modelEntry{key: key, claim: *c, state: ledger.InFlight, holder: by, attempt: attempt, claimed: now, ring: c.Budget.Ring}
	m.entries[key] = n
	return ledger.First, n
}

// settle: a second settlement of a completed entry makes it a tombstone, where there is room for one.
func (m *model) settle(e *modelEntry, ev ledger.Event, size, pieces, piece int, now ledger.Mono) ledger.Settled {
	next, takes := state.Next(e.state, ev)
	if m.entries[e.key] != e || !takes {
		return ledger.Fenced
	}
	switch {
	case next == ledger.Free:
		delete(m.entries, e.key)
		return ledger.Applied
	case next == ledger.Completed:
		m.rings[e.ring].write(e, size, pieces, piece)
		m.markUnknown(e, ledger.Completed, now)
	default:
		if e.state == ledger.Completed {
			if lim := e.claim.Limits.TombstonesPerScope; int(m.used(&e.claim, quota.Scope, nil).Tombs)+1 > lim {
				next = ledger.Completed
			}
		}
		m.markUnknown(e, next, now)
		e.task, e.hasReply, e.shed = false, false, false
	}
	return ledger.Applied
}

func (m *model) tick(k *worker, now ledger.Mono) {
	m.last[k.n], m.retired[k.n] = now, len(k.streams) == 0
	for _, e := range m.entries {
		if e.state == ledger.InFlight && e.holder == k.n && !k.live(e.f.token) {
			m.markUnknown(e, ledger.Unknown, now)
		}
	}
	if m.begun && m.sweeper != k.n && now-m.swept < sweeperSilence {
		return
	}
	m.begun, m.sweeper, m.swept = true, k.n, now
	for key, e := range m.entries {
		if m.orphan(e, k.n, now) {
			m.markUnknown(e, ledger.Unknown, now)
			continue
		}
		if m.expired(e, now) {
			delete(m.entries, key)
			continue
		}
		if r := &m.rings[e.ring]; e.state == ledger.Completed && e.hasReply && (r.lap-e.lap > 1 || r.lap-e.lap == 1 && r.next > e.at) {
			e.shed = true
		}
	}
}

const modelKeys = 14

// modelClaim draws a claim of a key, with limits of one of two configurations.
func modelClaim(t *rapid.T, limits [2]ledger.Limits) (int, ledger.Claim) {
	key := rapid.IntRange(0, modelKeys-1).Draw(t, "key")
	c := claimOf(key)
	if key%5 == 4 {
		c.Policy, c.Budget.Ring = numberOf("q"), 1
	}
	c.Limits = limits[rapid.IntRange(0, 1).Draw(t, "configuration")]
	c.RetryUnknown = rapid.IntRange(0, 3).Draw(t, "retry") == 0
	c.TakesTasks = rapid.Bool().Draw(t, "takes tasks")
	if key%3 == 0 {
		c.Terms.Window = 45 * time.Second
	}
	if rapid.IntRange(0, 9).Draw(t, "other") == 0 {
		c.Fingerprint[0] = 9
	}
	return key, c
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
	layout := Layout{Buckets: 4, Ways: 64, PieceBytes: 64, Pages: 3, Holders: 4, SweepSteps: 100}
	const pieces = 5
	seen := map[ledger.Verdict]int{}
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set("1500")
		defer func() { _ = checks.Value.Set(checks.DefValue) }()
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(t, "seed"), layout, 2)
		m := &model{entries: map[int]*modelEntry{}}
		for _, k := range w.worker {
			k.store.register(ledger.Mono(5*time.Second), w.now)
			m.last[k.n] = w.now
		}
		limits := [2]ledger.Limits{drawLimits(t), drawLimits(t)}
		var settled []*modelEntry
		for range rapid.IntRange(20, 200).Draw(t, "steps") {
			w.now += ledger.Mono(time.Millisecond)
			k := w.worker[rapid.IntRange(0, 1).Draw(t, "worker")]
			k.store.scans = 1000
			switch op := rapid.IntRange(0, 19).Draw(t, "op"); {
			case op < 9:
				key, c := modelClaim(t, limits)
				c.Budget.Bytes = pieces * layout.PieceBytes
				w.watch.allow(&c)
				want, e := m.ask(key, &c, k.n, w.now)
				got := k.ask(c)
				if got.Verdict != want {
					t.Fatalf("ask of key %d: %d, want %d", key, got.Verdict, want)
				}
				seen[want]++
				switch {
				case want == ledger.First:
					e.f = k.streams[len(k.streams)-1]
					if got.Lease.Attempt != e.attempt {
						t.Fatalf("attempt %d, want %d", got.Lease.Attempt, e.attempt)
					}
				case e != nil && got.Prior != (ledger.Prior{Known: true, Claimed: e.claimed, Settled: e.settled, Attempt: e.attempt}):
					t.Fatalf("prior %v, want claimed %d settled %d", got.Prior, e.claimed, e.settled)
				}
			case op < 14 && len(k.streams) > 0:
				f := k.streams[rapid.IntRange(0, len(k.streams)-1).Draw(t, "stream")]
				ev := ledger.Event(rapid.IntRange(0, ledger.NumHolderEvents-1).Draw(t, "event"))
				if rapid.Bool().Draw(t, "completes") {
					ev = ledger.Complete
				}
				size, task := rapid.IntRange(43, 200).Draw(t, "size"), rapid.Bool().Draw(t, "task")
				e := m.holderOf(f)
				want := ledger.Fenced
				if e != nil {
					if want = m.settle(e, ev, size, pieces, layout.PieceBytes, w.now); ev == ledger.Complete && want == ledger.Applied {
						e.task = task
						settled = append(settled, e)
					}
				}
				if ev == ledger.Complete && want == ledger.Fenced {
					// A late holder's reply goes into the ring all the same: it can shed, never pose.
					m.rings[f.claim.Budget.Ring].write(&modelEntry{}, size, pieces, layout.PieceBytes)
				}
				k.streams = without(k.streams, f)
				r := message(&f.lease, size)
				r.Task = task
				if got := k.store.Settle(f.lease, ledger.Outcome{Event: ev, Reply: r}); got != want {
					t.Fatalf("settle %d: %d, want %d", ev, got, want)
				}
			case op == 14 && len(settled) > 0:
				e := settled[rapid.IntRange(0, len(settled)-1).Draw(t, "settled")]
				ev := []ledger.Event{ledger.MarkUnknown, ledger.MarkNotReplayable}[rapid.IntRange(0, 1).Draw(t, "worse")]
				want := m.settle(e, ev, 0, pieces, layout.PieceBytes, w.now)
				if got := w.worker[e.holder].store.Settle(e.f.lease, ledger.Outcome{Event: ev}); got != want {
					t.Fatalf("second settlement %d: %d, want %d", ev, got, want)
				}
			case op == 15 && len(k.streams) > 0:
				k.streams = k.streams[1:] // its settlement is lost
			case op == 16:
				w.now += ledger.Mono(rapid.IntRange(0, 40).Draw(t, "seconds")) * ledger.Mono(time.Second)
			case op == 17:
				limits[rapid.IntRange(0, 1).Draw(t, "configuration")] = drawLimits(t)
			default:
				m.tick(k, w.now)
				k.tick()
			}
			if w.broken != nil {
				t.Fatal(w.broken)
			}
			m.compare(t, w)
		}
	})
	for v := ledger.First; v <= ledger.RefusedCapacity; v++ {
		if seen[v] == 0 {
			t.Errorf("verdict %d never happened", v)
		}
	}
}

// holderOf is the entry that a stream still has the lease of.
func (m *model) holderOf(f *flow) *modelEntry {
	for _, e := range m.entries {
		if e.f == f {
			return e
		}
	}
	return nil
}

// compare checks every count: the model's, the buckets', the pages'.
func (m *model) compare(t *rapid.T, w *world) {
	want := map[uint64]state.Counts{}
	for _, e := range m.entries {
		for _, row := range quota.RowsOf(e.claim.Policy, e.claim.Principal, e.claim.Scope) {
			want[row] = want[row].Plus(state.Uses(e.state))
		}
	}
	said := w.watch.said()
	for row, c := range w.watch.truth {
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
