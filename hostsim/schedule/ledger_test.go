package schedule

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var all = flag.Bool("all", false, "try every order of the larger of the small scenarios too (minutes)")

// small are scenarios of which every order is tried; the larger ones only with -all. schedules is how many there are.
var small = []struct {
	name      string
	schedules int // how many there were when the scenario was written
	larger    bool
	g         game
}{
	{"claim against claim", 18, false, game{clients: [][]ask{{{worker: 0, key: "a"}}, {{worker: 1, key: "a"}}}}},
	{"claim against claim of the last place", 720, false, game{limits: `"in_flight":1,"in_flight_per_principal":1,"in_flight_per_scope":1`,
		clients: [][]ask{{{worker: 0, key: "a"}}, {{worker: 1, key: "b"}}}}},
	// The server has the call when time passes; the lease ends unless the holder's tick comes first.
	{"completion against lease", 2485, false, game{limits: `"entries":32,"entries_per_principal":32,"entries_per_scope":32`,
		second: 2 * time.Second, ticks: 1, onceTick: "a", stalls: true, later: true, clients: [][]ask{{{worker: 0, key: "a"}}, {{worker: 1, key: "a", once: "a"}}}}},
	// The entry has expired, and lies there still. A pass of the sweep is four ticks: it opens the page, visits two buckets, and installs the count.
	{"sweep against claim, with places held: a whole pass", 702, false, game{ttl: 19 * time.Second, idle: 20 * time.Second, expired: true, sweeps: []int{-1, -1, -1, -1},
		last: []string{"b"}, lies: 2, mute: true, stalls: true, workers: 1, clients: [][]ask{{{worker: 0, key: "warm0"}}}}},
	{"sweep against claim: the page is opened", 29, false, sweepAgainstClaim(20, 1)},
	{"sweep against claim: the bucket is visited", 1402, false, sweepAgainstClaim(21, 1)},
	{"sweep against claim: the count is installed", 29, false, sweepAgainstClaim(23, 0)},
	// The server does not answer meanwhile: what is evicted is the reply of another call.
	{"eviction against replay", 4938, false, evictionAgainstReplay(true)},
	{"eviction against replay, with answers", 10988, true, evictionAgainstReplay(false)},
	{"a claim and a crash at every access", 8, false, game{faults: []Fault{{Kind: Crash, OneIn: 2}}, clients: [][]ask{{{worker: 0, key: "a"}}}}},
	{"two crashes, and a repeat", 29, false, game{faults: []Fault{{Kind: Crash, OneIn: 2, Max: 2}}, clients: [][]ask{{{worker: 0, key: "a"}, {worker: 1, key: "a"}}}}},
	{"a claim and a refusal at every write", 5, false, game{faults: []Fault{{Kind: RefuseCAS, OneIn: 2}}, clients: [][]ask{{{worker: 0, key: "a"}, {worker: 1, key: "a"}}}}},
}

// sweepAgainstClaim is one tick of the sweeper, after so many seconds, against a claim of a key whose entry has expired, and
// lies in the table still unless the sweep has been there.
func sweepAgainstClaim(idle time.Duration, lies int) game {
	return game{ttl: 19 * time.Second, idle: idle * time.Second, expired: true, sweeps: []int{-1}, lies: lies, workers: 1, clients: [][]ask{{{worker: 0, key: "warm0"}}}}
}

// evictionAgainstReplay is a claim that needs the place of an entry of which another client wants the reply.
func evictionAgainstReplay(mute bool) game {
	return game{limits: `"entries":2,"entries_per_principal":2,"entries_per_scope":2,"on_full":"evict","in_flight":1`, mute: mute, stalls: true, evicts: true, sheds: true,
		clients: [][]ask{{{worker: 0, key: "b"}}, {{worker: 1, key: "warm0"}}}}
}

func every(t *testing.T, g game, limit int) Explored {
	t.Helper()
	began, spent := time.Now(), cpu()
	g.tally, g.whole, g.before = map[string]int{}, true, &known{}
	e, err := Every(t.Context(), limit, g.scenario)
	if err != nil {
		t.Fatalf("after %d schedules: %v", e.Schedules, err)
	}
	t.Logf("%d schedules of %d to %d steps, %d broken off as redundant, all there are: %v, in %v (%v of CPU)", e.Schedules, e.Shortest, e.Longest, e.Redundant, e.Whole,
		time.Since(began).Round(time.Millisecond), (cpu() - spent).Round(time.Millisecond))
	t.Log(g.tally)
	return e
}

// All orders are played to their end. Far fewer than there were mean that exploration misses some, and many more that a scenario explodes:
// then the number is written down anew, once it is known why.
func TestEveryOrder(t *testing.T) {
	for _, s := range small {
		t.Run(s.name, func(t *testing.T) {
			if s.larger && !*all {
				t.Skip("-all tries it")
			}
			e, least := every(t, s.g, 4*s.schedules), s.schedules*4/5
			if !e.Whole || e.Schedules < least {
				t.Errorf("%d schedules, complete: %v; want all, and no fewer than %d", e.Schedules, e.Whole, least)
			}
		})
	}
}

// storm is a large game: many clients, few keys, everything that can go wrong.
func storm(seed uint64, calls int, faults ...Fault) game {
	rng := rand.New(rand.NewPCG(seed, 7))
	g := game{later: true, ticks: 4 * calls, faults: faults, stalls: true, ttl: 24 * time.Hour}
	const clients, workers = 12, 3
	g.clients = make([][]ask, clients)
	for i := range calls {
		n := rng.IntN(calls/5 + 1)
		g.clients[i%clients] = append(g.clients[i%clients], ask{worker: rng.IntN(workers), key: fmt.Sprintf("k%04d", n), user: fmt.Sprint("u", n%4)})
	}
	return g
}

var everything = []Fault{
	{Kind: Crash, OneIn: 400, Max: 10}, {Kind: RefuseCAS, OneIn: 100, Max: 20}, {Kind: ResetBefore, OneIn: 60, Max: 5}, {Kind: ResetAfterBody, OneIn: 40, Max: 8},
	{Kind: CutReply, OneIn: 40, Max: 8}, {Kind: Slow, OneIn: 10, Max: 50, By: 9 * time.Second}, {Kind: Dead, OneIn: 100, Max: 3},
	{Kind: ClientGone, OneIn: 30, Max: 20}, {Kind: ClockJump, OneIn: 20, Max: 3, By: -time.Hour}, {Kind: ClockJump, OneIn: 20, Max: 3, By: time.Hour},
}

func TestRandomOrders(t *testing.T) {
	tally := map[string]int{}
	for seed := range uint64(40) {
		g := storm(seed+1, 60, everything...)
		g.tally = tally
		if err := Play(t.Context(), g.scenario(), Random(seed+1)); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(tally)
	for _, kind := range []string{"lost", "200 ", "200 true", "200 idempotency_in_flight", "200 idempotency_outcome_unknown", "503 "} {
		if tally[kind] == 0 {
			t.Errorf("no answer of the kind %q: the storm is a lull", kind)
		}
	}
}

// A thousand calls in one random order.
func TestAThousandCalls(t *testing.T) {
	began := time.Now()
	g := storm(1, 1000, everything...)
	g.tally = map[string]int{}
	if err := Play(t.Context(), g.scenario(), Random(1)); err != nil {
		t.Fatal(err)
	}
	t.Logf("in %v: %v", time.Since(began).Round(time.Millisecond), g.tally)
}

func violation(err error) (*Failure, bool) {
	var f *Failure
	ok := errors.As(err, &f)
	return f, ok
}
