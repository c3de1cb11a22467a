package shared

import (
	"encoding/binary"
	"flag"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

var (
	schedules = flag.Int("schedules", 3000, "random schedules")
	oneSeed   = flag.Uint64("seed", 0, "run only this random schedule")
)

// small are limits that a handful of keys reach.
func small(evict bool) ledger.Limits {
	return ledger.Limits{
		Entries: 6, EntriesPerPrincipal: 4, EntriesPerScope: 3,
		InFlight: 4, InFlightPerPrincipal: 3, InFlightPerScope: 2,
		TombstonesPerScope: 2, OnFullEvict: evict,
	}
}

// roomy are limits that are not reached, and allow for cached quota.
func roomy() ledger.Limits {
	return ledger.Limits{
		Entries: 24, EntriesPerPrincipal: 20, EntriesPerScope: 16,
		InFlight: 16, InFlightPerPrincipal: 12, InFlightPerScope: 10, TombstonesPerScope: 12,
	}
}

// character is what a random schedule is made of.
type character struct {
	workers, keys, steps int
	evict, retry, fails  bool
	resolves             bool // operators resolve keys
	ahead, roomy         bool // quota is cached, small as the limits are, or of wide ones too
	crashes              int  // one in so many steps
}

func characterOf(seed uint64) character {
	c := character{workers: 2 + int(seed%2), keys: 3 + int(seed/2%6), steps: 400, crashes: 40}
	c.evict, c.retry, c.fails = seed/3%3 == 0, seed/5%3 == 0, seed%7 == 0
	c.ahead, c.roomy = seed%3 != 0, seed%3 == 1
	c.resolves = seed%5 < 2
	if seed%4 == 0 {
		c.crashes = 1 << 30
	}
	return c
}

// play runs one random schedule and gives the first violation.
func play(seed uint64, c character) (w *world) {
	w = newWorld(seed, tiny, c.workers)
	if c.ahead {
		w.cacheOneOf = 2
		for _, k := range w.worker {
			k.store.quota.CacheOneOf(2)
		}
	}
	for range c.steps {
		if w.broken != nil {
			return w
		}
		k := w.worker[w.random.IntN(len(w.worker))]
		switch {
		case w.random.IntN(c.crashes) == 0:
			k.crash()
		case w.random.IntN(25) == 0:
			w.now += ledger.Mono(time.Duration(w.random.IntN(4000)) * time.Millisecond)
		case w.random.IntN(200) == 0:
			w.now += ledger.Mono(20 * time.Second)
		case c.fails && w.random.IntN(30) == 0:
			n := w.random.IntN(6)
			w.fail = func(string) error {
				if n--; n >= 0 {
					return errTable
				}
				return nil
			}
		case k.idle():
			w.something(k, &c)
		default:
			k.step()
		}
	}
	if w.broken == nil {
		w.heal(5 * time.Second)
		w.watch.none(ledger.InFlight)
		w.watch.exact()
	}
	if w.broken == nil {
		w.now += ledger.Mono(time.Minute)
		w.heal(5 * time.Second)
		w.watch.none(ledger.InFlight, ledger.Completed, ledger.Unknown, ledger.NotReplayable)
		w.watch.exact()
	}
	return w
}

// something starts a random task of an idle worker.
func (w *world) something(k *worker, c *character) {
	n := w.random.IntN(10)
	var f *flow
	if len(k.streams) > 0 {
		f = k.streams[w.random.IntN(len(k.streams))]
	}
	switch {
	case n < 2:
		k.begin("tick", k.tick)
	case f != nil && n == 2:
		// The stream ends, and its settlement is lost to a fault.
		k.streams = without(k.streams, f)
	case f != nil && n == 3:
		k.streams = without(k.streams, f)
		k.begin("forget", func() { k.store.Forget(f.token) })
	case f != nil && n < 7:
		ev := ledger.Event(w.random.IntN(ledger.NumHolderEvents))
		if w.random.IntN(2) == 0 {
			ev = ledger.Complete
		}
		size := 43 + w.random.IntN(150)
		worse := w.random.IntN(6) == 0
		k.begin("settle", func() {
			if k.settle(f, ev, size) == ledger.Applied && worse {
				k.store.Settle(f.lease, ledger.Outcome{Event: ledger.MarkUnknown})
			}
		})
	case c.resolves && n > 7:
		id := idOf(w.random.IntN(c.keys))
		q := ledger.Query{Policy: numberOf("p"), Operation: binary.BigEndian.Uint64(id[:]), From: k.store.At(&id)}
		ev := ledger.ResolveCompleted + ledger.Event(w.random.IntN(3))
		k.begin("resolve", func() { k.store.Resolve(ledger.Token{}, q, ev) })
	default:
		claim := claimOf(w.random.IntN(c.keys))
		claim.Limits = small(c.evict)
		if c.roomy && w.random.IntN(2) == 0 {
			claim.Limits = roomy()
		}
		claim.RetryUnknown = c.retry
		w.watch.allow(&claim)
		k.begin("ask", func() { k.ask(claim) })
	}
}

func without(fs []*flow, f *flow) (out []*flow) {
	for _, g := range fs {
		if g != f {
			out = append(out, g)
		}
	}
	return out
}

// Thousands of schedules of two and three workers, with crashes between any two calls
// of the table, clock steps, failing calls, lost settlements. A failing seed
// reproduces with -seed.
func TestRandomSchedules(t *testing.T) {
	if *oneSeed != 0 {
		if w := play(*oneSeed, characterOf(*oneSeed)); w.broken != nil {
			t.Fatal(w.broken)
		}
		return
	}
	var firsts, steps, lives int
	seen := map[ledger.Notice]int{}
	for seed := uint64(1); seed <= uint64(*schedules); seed++ {
		w := play(seed, characterOf(seed))
		if w.broken != nil {
			t.Fatalf("seed %d: %v", seed, w.broken)
		}
		for _, n := range w.runs {
			firsts += n
		}
		for n, c := range w.notices {
			seen[n] += c
		}
		for _, k := range w.worker {
			lives += k.lives - 1
		}
		steps += w.steps
	}
	t.Logf("%d schedules, %d calls of the table, %d crashes, %d runs; evicted %d, shed %d, orphaned %d, fenced late %d",
		*schedules, steps, lives, firsts, seen[ledger.Evicted], seen[ledger.Shed], seen[ledger.Orphaned], seen[ledger.LateFenced])
	for _, n := range []ledger.Notice{ledger.Evicted, ledger.Shed, ledger.Orphaned, ledger.LateFenced} {
		if seen[n] == 0 && *schedules >= 1000 {
			t.Errorf("notice %d never happened: the schedules do not reach it", n)
		}
	}
}
