package ledger

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"
)

// watcher sees every write to the table and compares it with what the contract
// promises. It decodes the records for itself and counts for itself.
type watcher struct {
	*world
	truth      map[uint64]counts    // by row, from the buckets
	caps       map[uint64]counts    // by row, the widest in use; 0 = none
	heartbeats map[uint64]Mono      // last sign of each incarnation
	silence    map[uint64][][2]Mono // of each incarnation: its long silences
	owner      map[uint64]life      // which worker's life an incarnation is
	done       map[fenceKey]bool    // runs that completed
	evicts     bool                 // some claim may evict
	retries    bool                 // some claim may take an unknown outcome over
	foreign    bool                 // foreign bytes are about: counts cannot be compared
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
		world: w, truth: map[uint64]counts{}, caps: map[uint64]counts{}, heartbeats: map[uint64]Mono{},
		silence: map[uint64][][2]Mono{}, owner: map[uint64]life{}, done: map[fenceKey]bool{},
	}
}

// allow says which limits a claim comes with.
func (w *watcher) allow(c *Claim) {
	rows := rowsOf((&policies{}).digest(c.Policy), c.Principal, c.Scope)
	for level, row := range rows {
		a, b := w.caps[row], c.Limits.caps(level)
		w.caps[row] = counts{max(a.entries, b.entries), max(a.inFlight, b.inFlight), max(a.tombs, b.tombs)}
	}
	w.evicts = w.evicts || c.Limits.OnFullEvict
	w.retries = w.retries || c.RetryUnknown
}

func (w *watcher) wrote(by *worker, key string, before, after []byte) {
	_, rest, _ := strings.Cut(key, "callonce/test/")
	switch {
	case strings.HasPrefix(rest, "b/"):
		w.wroteBucket(by, before, after)
		w.checkCounts()
	case strings.HasPrefix(rest, "p/"):
		w.checkCounts()
	case strings.HasPrefix(rest, "h/") && by != nil:
		h := holderRecord(after)
		if !h.valid() {
			w.violated("worker %d writes a broken holder record", by.n)
			return
		}
		if o, ok := w.owner[h.incarnation()]; ok && o != (life{by, by.lives}) {
			w.violated("worker %d signs as another's incarnation", by.n)
		}
		if last, ok := w.heartbeats[h.incarnation()]; ok && w.now-last >= Mono(time.Second) {
			w.silence[h.incarnation()] = append(w.silence[h.incarnation()], [2]Mono{last, w.now})
		}
		w.owner[h.incarnation()], w.heartbeats[h.incarnation()] = life{by, by.lives}, h.last()
		if old := holderRecord(before); len(before) > 0 && old.valid() && old.incarnation() != h.incarnation() {
			if w.now-old.last() < old.leaseTTL() {
				w.violated("worker %d takes the place of a living holder", by.n)
			}
		}
	}
}

func decoded(b []byte) (map[[32]byte]entry, bool) {
	out := map[[32]byte]entry{}
	if !bucket(b).valid() {
		return nil, false
	}
	bucket(b).each(func(e entry) bool {
		out[e.id()] = e
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
		entries map[[32]byte]entry
		sign    int32
	}{{was, -1}, {is, 1}} {
		for _, e := range m.entries {
			if e = current(e); !e.readable() {
				continue
			}
			for _, row := range e.rows() {
				c := table[e.state()].counts
				c.entries, c.inFlight, c.tombs = c.entries*m.sign, c.inFlight*m.sign, c.tombs*m.sign
				w.truth[row] = w.truth[row].plus(c)
			}
		}
	}
	if by == nil {
		return
	}
	if bucket(after).fence() < bucket(before).fence() || bucket(after).epoch() < bucket(before).epoch() {
		w.violated("a fence or an epoch goes back")
	}
	for id, e := range is {
		p, had := was[id]
		if bytes.Equal(p, e) {
			continue
		}
		p, e = current(orEmpty(p)), current(e)
		switch {
		case !e.readable():
			w.violated("worker %d (%s) changes an entry it cannot read", by.n, by.doing)
		case !had || !p.readable() || p.fence() != e.fence():
			w.claimed(by, p, had, e, bucket(before).fence())
		default:
			w.turned(by, p, e)
		}
	}
	for id, p := range was {
		if _, still := is[id]; !still {
			w.gone(by, current(p))
		}
	}
}

func orEmpty(e entry) entry {
	if e == nil {
		return make(entry, entrySize)
	}
	return e
}

// ownsLease reports whether a worker's present life is the holder of an entry.
func (w *watcher) leasedBy(by *worker, e entry) bool {
	return w.owner[e.holder()] == life{by, by.lives}
}

// leaseLost reports whether an entry's holder may be given up by others: it was silent
// for the lease, now or since it claimed. (Who saw that may write it a little later.)
func (w *watcher) leaseLost(e entry) bool {
	for _, s := range w.silence[e.holder()] {
		if s[1]-max(e.claimed(), s[0]) >= e.leaseTTL() {
			return true
		}
	}
	return w.now-max(e.claimed(), w.heartbeats[e.holder()]) >= e.leaseTTL()
}

func (w *watcher) claimed(by *worker, p entry, had bool, e entry, fence uint64) {
	if e.state() != InFlight || e.fence() <= fence || !w.leasedBy(by, e) {
		w.violated("worker %d writes a new entry that is no claim of its own", by.n)
	}
	takesOver := w.retries && had && p.readable() && p.state() == Unknown && e.attempt() == p.attempt()+1
	switch {
	case had && !p.expired(w.now) && !takesOver:
		w.violated("worker %d claims what is taken, state %d", by.n, p.state())
	case !takesOver && e.attempt() != 1:
		w.violated("worker %d claims anew as attempt %d", by.n, e.attempt())
	}
}

func (w *watcher) turned(by *worker, p, e entry) {
	mine := w.leasedBy(by, p)
	switch from, to := p.state(), e.state(); {
	case !p.readable():
		w.violated("worker %d changes an entry it cannot read", by.n)
	case from == to && from == Completed:
		if shed := e.flags()&flagShed != 0; !shed && !(mine && e.slot().length == 0) {
			w.violated("worker %d changes a completed entry", by.n)
		}
		return
	case from == InFlight && to == Unknown && (mine || w.leaseLost(p)):
	case from == InFlight && to != InFlight && to != Free && mine:
	case (from == Completed || from == NotReplayable) && (to == Unknown || to == NotReplayable) && mine && from != to:
	default:
		w.violated("worker %d (%s, holder %v) turns state %d into %d", by.n, by.doing, mine, from, to)
	}
	if e.state() == Completed {
		w.done[fenceKey{e.id(), e.fence()}] = true
	}
	if least := w.now - 24*Mono(time.Hour); e.settled() > w.now || e.settled() < least {
		w.violated("settled at %d, now %d", e.settled(), w.now)
	}
	if want := expires(e.claimed(), e.settled(), e.millis(offTTL), e.millis(offWindow)); e.expiresAt() != want {
		w.violated("an entry expires %v after it was settled", time.Duration(e.expiresAt()-e.settled()))
	}
}

func (w *watcher) gone(by *worker, p entry) {
	switch {
	case p.expired(w.now):
	case !p.readable():
		w.violated("worker %d frees an entry it cannot read", by.n)
	case p.state() == InFlight && w.leasedBy(by, p):
	case p.state() == Completed && w.evicts:
	default:
		w.violated("worker %d (%s) frees an entry of state %d", by.n, by.doing, p.state())
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
		over("entries", c.entries, limit.entries)
		over("in flight", c.inFlight, limit.inFlight)
		over("tombstones, spent and reserved", c.tombs, limit.tombs)
		if p := said[row]; !w.foreign && (p.entries < c.entries || p.inFlight < c.inFlight || p.tombs < c.tombs) {
			w.violated("a row says %v where the buckets hold %v", p, c)
		}
	}
}

func (w *watcher) said() map[uint64]counts {
	out := map[uint64]counts{}
	for n := range w.layout.Pages {
		p := page(w.cells[w.worker0().pageKey(n)].value)
		if !p.valid() {
			continue
		}
		for rows := p.rows(); len(rows) > 0; rows = rows[pageRow:] {
			key := binary.LittleEndian.Uint64(rows)
			if _, twice := out[key]; twice {
				w.violated("a page has a row twice")
			}
			out[key] = countsAt(rows[offMain:])
		}
	}
	return out
}

func (w *watcher) worker0() *Shared { return w.worker[0].store }

// exact compares the counts after healing: they must be the truth.
func (w *watcher) exact() {
	said := w.said()
	for _, k := range w.worker {
		for _, h := range k.store.cache.list {
			// Places that a living worker holds count, unless a recount has dropped them.
			if p := page(w.cells[k.store.pageKey(k.store.pageOf(h.key.row))].value); h.key.epoch >= p.installed() {
				said[h.key.row] = said[h.key.row].minus(h.counts)
			}
		}
	}
	for row, c := range w.truth {
		if said[row] != c {
			w.violated("after healing a row says %v where the buckets hold %v", said[row], c)
		}
		delete(said, row)
	}
	for _, c := range said {
		if c != (counts{}) {
			w.violated("after healing a row says %v where the buckets hold nothing", c)
		}
	}
}

// none checks that nothing is left in flight.
func (w *watcher) none(states ...State) {
	for n := range w.layout.Buckets {
		bucket(w.cells[w.worker0().bucketKey(n)].value).each(func(e entry) bool {
			for _, st := range states {
				if current(e).readable() && current(e).state() == st {
					w.violated("after healing an entry is left in state %d", st)
				}
			}
			return true
		})
	}
}

// replayed checks that a reply is the one of this key, and of a run that completed.
func (w *watcher) replayed(c *Claim, r Reply) {
	if len(r.Message) < 43 || [32]byte(r.Message[2:]) != c.ID {
		w.violated("the reply of another key was sent")
		return
	}
	fence := binary.LittleEndian.Uint64(r.Message[35:])
	if !w.done[fenceKey{c.ID, fence}] {
		w.violated("the reply of a run that did not complete was sent")
	}
}
