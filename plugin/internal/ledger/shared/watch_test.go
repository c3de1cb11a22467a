package shared

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/quota"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// watcher sees every write to the table and compares it with what the contract
// promises. It decodes the records for itself and counts for itself.
type watcher struct {
	*world
	truth      map[uint64]state.Counts     // by row, from the buckets
	caps       map[uint64]state.Counts     // by row, the widest in use; 0 = none
	heartbeats map[uint64]ledger.Mono      // last heartbeat of each incarnation
	silence    map[uint64][][2]ledger.Mono // of each incarnation: its long silences
	owner      map[uint64]life             // which worker's life an incarnation is
	done       map[fenceKey]bool           // runs that completed
	resolved   map[[32]byte]bool           // keys of which an operator said that they completed elsewhere
	evicts     bool                        // some claim may evict
	retries    bool                        // some claim may take an unknown outcome over
	foreign    bool                        // foreign bytes are about: counts cannot be compared
}

type life struct {
	worker *worker
	lives  int
}

type fenceKey struct {
	id    [32]byte
	fence uint64
}

func newWatcher(w *world) *watcher {
	return &watcher{
		world: w, truth: map[uint64]state.Counts{}, caps: map[uint64]state.Counts{}, heartbeats: map[uint64]ledger.Mono{},
		silence: map[uint64][][2]ledger.Mono{}, owner: map[uint64]life{}, done: map[fenceKey]bool{}, resolved: map[[32]byte]bool{},
	}
}

// allow says which limits a claim comes with.
func (w *watcher) allow(c *ledger.Claim) {
	rows := quota.RowsOf(c.Policy, c.Principal, c.Scope)
	for level, row := range rows {
		a, b := w.caps[row], quota.Caps(&c.Limits, level)
		w.caps[row] = state.Counts{Entries: max(a.Entries, b.Entries), InFlight: max(a.InFlight, b.InFlight), Tombs: max(a.Tombs, b.Tombs)}
	}
	w.evicts = w.evicts || c.Limits.OnFullEvict
	w.retries = w.retries || c.RetryUnknown
}

func (w *watcher) wrote(by *worker, key string, before, after []byte) {
	_, rest, _ := strings.Cut(key, "callonce/test/")
	w.sees(rest)
	switch {
	case strings.HasPrefix(rest, "b/"):
		w.wroteBucket(by, before, after)
		w.checkCounts()
	case strings.HasPrefix(rest, "p/"):
		w.checkCounts()
	case strings.HasPrefix(rest, "h/") && by != nil:
		h := record.WorkerSlot(after)
		if !h.Valid() {
			w.violated("worker %d writes a broken holder record", by.n)
			return
		}
		if o, ok := w.owner[h.Incarnation()]; ok && o != (life{by, by.lives}) {
			w.violated("worker %d renews another's incarnation", by.n)
		}
		if last, ok := w.heartbeats[h.Incarnation()]; ok && w.now-last >= ledger.Mono(time.Second) {
			w.silence[h.Incarnation()] = append(w.silence[h.Incarnation()], [2]ledger.Mono{last, w.now})
		}
		w.owner[h.Incarnation()], w.heartbeats[h.Incarnation()] = life{by, by.lives}, h.Heartbeat()
		if old := record.WorkerSlot(before); len(before) > 0 && old.Valid() && old.Incarnation() != h.Incarnation() {
			if w.now-old.Heartbeat() < old.LeaseTTL() {
				w.violated("worker %d takes the slot of a living holder", by.n)
			}
		}
	}
}

// sees notes what a write is compared with, for the explorer: a bucket with all that buckets hold, with pages and with heartbeats; a
// page's rows with what the buckets hold of them; a heartbeat with nothing but what it was.
func (w *watcher) sees(rest string) {
	switch {
	case strings.HasPrefix(rest, "b/"):
		w.touch(bucketsTouch, true)
		for n := range w.layout.Holders {
			w.touch(fmt.Sprint(holderTouch, "h/", n), false)
		}
		w.touch(clockTouch, false)
	case strings.HasPrefix(rest, "p/"):
		w.touch(bucketsTouch, false)
	case strings.HasPrefix(rest, "h/"):
		w.touch(holderTouch+rest, true)
		w.touch(clockTouch, false)
	}
}

func decoded(b []byte) (map[[32]byte]record.Entry, bool) {
	out := map[[32]byte]record.Entry{}
	if len(b) > 0 && !record.ValidBucket(b) {
		return nil, false
	}
	record.Bucket(b).Each(func(e record.Entry) bool {
		out[e.ID()] = e
		return true
	})
	return out, true
}

func (w *watcher) wroteBucket(by *worker, before, after []byte) {
	was, ok := decoded(before)
	is, ok2 := decoded(after)
	if by != nil && !(ok && ok2) {
		w.violated("a bucket of foreign bytes was written, or written over")
		return
	}
	for _, m := range []struct {
		entries map[[32]byte]record.Entry
		sign    int32
	}{{was, -1}, {is, 1}} {
		for _, e := range m.entries {
			if e = record.Current(e); !e.Readable() {
				continue
			}
			for _, row := range rowsOf(e) {
				c := state.Uses(e.State())
				c.Entries, c.InFlight, c.Tombs = c.Entries*m.sign, c.InFlight*m.sign, c.Tombs*m.sign
				w.truth[row] = w.truth[row].Plus(c)
			}
		}
	}
	if by == nil {
		return
	}
	if record.Bucket(after).Fence() < record.Bucket(before).Fence() || record.Bucket(after).Epoch() < record.Bucket(before).Epoch() {
		w.violated("a fence or an epoch goes back")
	}
	for id, e := range is {
		p, had := was[id]
		if bytes.Equal(p, e) {
			continue
		}
		p, e = record.Current(orEmpty(p)), record.Current(e)
		switch {
		case !e.Readable():
			w.violated("worker %d (%s) changes an entry it cannot read", by.n, by.doing)
		case !had || !p.Readable() || p.Fence() != e.Fence():
			w.claimed(by, p, had, e, record.Bucket(before).Fence())
		default:
			w.turned(by, p, e)
		}
	}
	for id, p := range was {
		if _, still := is[id]; !still {
			w.gone(by, record.Current(p))
		}
	}
}

func orEmpty(e record.Entry) record.Entry {
	if e == nil {
		return make(record.Entry, record.EntrySize)
	}
	return e
}

// ownsLease reports whether a worker's present life is the holder of an entry.
func (w *watcher) leasedBy(by *worker, e record.Entry) bool {
	return w.owner[e.Holder()] == life{by, by.lives}
}

// leaseLost reports whether others may end an entry's lease: its holder was silent
// for the lease, now or since it claimed. (Who saw that may write it a little later.)
func (w *watcher) leaseLost(e record.Entry) bool {
	for _, s := range w.silence[e.Holder()] {
		if s[1]-max(e.Claimed(), s[0]) >= e.LeaseTTL() {
			return true
		}
	}
	return w.now-max(e.Claimed(), w.heartbeats[e.Holder()]) >= e.LeaseTTL()
}

func (w *watcher) claimed(by *worker, p record.Entry, had bool, e record.Entry, fence uint64) {
	if e.State() != ledger.InFlight || e.Fence() <= fence || !w.leasedBy(by, e) {
		w.violated("worker %d writes a new entry that is no claim of its own", by.n)
	}
	takesOver := w.retries && had && p.Readable() && p.State() == ledger.Unknown && e.Attempt() == p.Attempt()+1
	switch {
	case had && !expired(p, w.now) && !takesOver:
		w.violated("worker %d claims what is taken, state %d", by.n, p.State())
	case !takesOver && e.Attempt() != 1:
		w.violated("worker %d claims anew as attempt %d", by.n, e.Attempt())
	}
}

func (w *watcher) turned(by *worker, p, e record.Entry) {
	mine := w.leasedBy(by, p)
	switch from, to := p.State(), e.State(); {
	case !p.Readable():
		w.violated("worker %d changes an entry it cannot read", by.n)
	case from == to && from == ledger.Completed:
		if shed := e.Flags()&record.FlagShed != 0; !shed && !(mine && e.Slot().Length == 0) {
			w.violated("worker %d changes a completed entry", by.n)
		}
		return
	case by.doing == "resolve" && from == ledger.Unknown && to == ledger.Unknown && e.Flags() == record.FlagHeld:
	case by.doing == "resolve" && (from == ledger.Unknown || from == ledger.NotReplayable) && to == ledger.Completed && e.Flags() == record.FlagElsewhere:
		w.resolved[e.ID()] = true
		return // no run of it completed
	case from == ledger.InFlight && to == ledger.Unknown && (mine || w.leaseLost(p)):
	case from == ledger.InFlight && to != ledger.InFlight && to != ledger.Free && mine:
	case (from == ledger.Completed || from == ledger.NotReplayable) && (to == ledger.Unknown || to == ledger.NotReplayable) && mine && from != to:
	default:
		w.violated("worker %d (%s, holder %v) turns state %d into %d", by.n, by.doing, mine, from, to)
	}
	if e.State() == ledger.Completed {
		w.done[fenceKey{e.ID(), e.Fence()}] = true
	}
	if least := w.now - 24*ledger.Mono(time.Hour); e.Settled() > w.now || e.Settled() < least {
		w.violated("settled at %d, now %d", e.Settled(), w.now)
	}
	if want := state.Expires(e.Claimed(), e.Settled(), e.TTL(), e.Window()); e.ExpiresAt() != want {
		w.violated("an entry expires %v after it was settled", time.Duration(e.ExpiresAt()-e.Settled()))
	}
}

func (w *watcher) gone(by *worker, p record.Entry) {
	switch {
	case expired(p, w.now):
	case !p.Readable():
		w.violated("worker %d frees an entry it cannot read", by.n)
	case p.State() == ledger.InFlight && w.leasedBy(by, p):
	case p.State() == ledger.Completed && w.evicts && p.Flags()&record.FlagElsewhere == 0:
	case by.doing == "resolve" && p.State() == ledger.Unknown:
	default:
		w.violated("worker %d (%s) frees an entry of state %d", by.n, by.doing, p.State())
	}
}

// checkCounts compares every row's truth with the limits and with what pages say.
func (w *watcher) checkCounts() {
	said := w.said()
	for row, c := range w.truth {
		over := func(what string, n, limit int32) {
			if limit > 0 && n > limit {
				w.violated("%s: %d, limit %d", what, n, limit)
			}
		}
		limit := w.caps[row]
		over("entries", c.Entries, limit.Entries)
		over("in flight", c.InFlight, limit.InFlight)
		over("tombstones, spent and reserved", c.Tombs, limit.Tombs)
		if p := said[row]; !w.foreign && (p.Entries < c.Entries || p.InFlight < c.InFlight || p.Tombs < c.Tombs) {
			w.violated("a row says %v where the buckets hold %v", p, c)
		}
	}
}

func (w *watcher) said() map[uint64]state.Counts {
	out := map[uint64]state.Counts{}
	for n := range w.layout.Pages {
		p := quota.Page(w.cells[w.worker0().quota.Key(n)].value)
		if !p.Valid() {
			continue
		}
		p.Each(func(key uint64, c state.Counts) {
			if _, twice := out[key]; twice {
				w.violated("a page has a row twice")
			}
			out[key] = c
		})
	}
	return out
}

func (w *watcher) worker0() *Shared { return w.worker[0].store }

// exact compares the counts after healing: they must be the truth.
func (w *watcher) exact() {
	said := w.said()
	for _, k := range w.worker {
		k.store.quota.EachCached(func(row uint64, epoch uint32, d state.Counts) {
			// What a living worker has cached counts, unless a recount has dropped it.
			if p := quota.Page(w.cells[k.store.quota.Key(k.store.quota.PageOf(row))].value); epoch >= p.Installed() {
				said[row] = said[row].Minus(d)
			}
		})
	}
	for row, c := range w.truth {
		if said[row] != c {
			w.violated("after healing a row says %v where the buckets hold %v", said[row], c)
		}
		delete(said, row)
	}
	for _, c := range said {
		if c != (state.Counts{}) {
			w.violated("after healing a row says %v where the buckets hold nothing", c)
		}
	}
}

// none checks that nothing is left in flight.
func (w *watcher) none(states ...ledger.State) {
	for n := range w.layout.Buckets {
		record.Bucket(w.cells[w.worker0().buckets.Key(n)].value).Each(func(e record.Entry) bool {
			for _, st := range states {
				if record.Current(e).Readable() && record.Current(e).State() == st {
					w.violated("after healing an entry is left in state %d", st)
				}
			}
			return true
		})
	}
}

// replayed checks that a reply is the one of this key, and of a run that completed.
func (w *watcher) replayed(c *ledger.Claim, r ledger.Reply) {
	if r.Elsewhere && w.resolved[c.ID] {
		return
	}
	if len(r.Message) < 43 || [32]byte(r.Message[2:]) != c.ID {
		w.violated("the reply of another key was sent")
		return
	}
	fence := binary.LittleEndian.Uint64(r.Message[35:])
	if !w.done[fenceKey{c.ID, fence}] {
		w.violated("the reply of a run that did not complete was sent")
	}
}
