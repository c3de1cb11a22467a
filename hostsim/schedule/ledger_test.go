package schedule

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var all = flag.Bool("all", false, "try every order of the small scenarios, however many there are (minutes)")

func every(t *testing.T, limit int, g game) {
	t.Helper()
	began := time.Now()
	if *all {
		limit = 1 << 30
	}
	g.tally = map[string]int{}
	e, err := Every(t.Context(), limit, g.scenario)
	if err != nil {
		t.Fatalf("after %d schedules: %v", e.Schedules, err)
	}
	t.Logf("%d schedules, %d broken off as redundant, all there are: %v, in %v", e.Schedules, e.Redundant, e.Whole, time.Since(began).Round(time.Millisecond))
	t.Log(g.tally)
	if e.Schedules < 2 {
		t.Error("there was nothing to choose")
	}
}

// small are scenarios of which every order is tried. limit bounds the runs of those that have too many.
var small = []struct {
	name  string
	limit int
	g     game
}{
	{"claim against claim", 400, game{clients: [][]ask{{{worker: 0, key: "a"}}, {{worker: 1, key: "a"}}}}},
	{"claim against claim of the last place", 150, game{limits: `"in_flight":1,"in_flight_per_principal":1,"in_flight_per_scope":1`,
		clients: [][]ask{{{worker: 0, key: "a"}}, {{worker: 1, key: "b"}}}}},
	{"completion against lease", 150, game{second: 5 * time.Second, ticks: 1, stalls: true, later: true,
		clients: [][]ask{{{worker: 0, key: "a"}}, {{worker: 1, key: "a"}}}}},
	{"sweep against claim", 150, game{ttl: 2 * time.Second, idle: 3 * time.Second, clients: [][]ask{{{worker: 0, key: "warm0"}}}, evicts: true}},
	{"eviction against replay", 150, game{limits: `"entries":2,"entries_per_principal":2,"entries_per_scope":2,"on_full":"evict"`, evicts: true, sheds: true,
		clients: [][]ask{{{worker: 0, key: "b"}}, {{worker: 1, key: "warm0"}}, {{worker: 1, key: "warm1"}}}}},
	{"a claim and a crash at every access", 150, game{faults: []Fault{{Kind: Crash, OneIn: 2}}, clients: [][]ask{{{worker: 0, key: "a"}}}}},
	{"two crashes, and a repeat", 150, game{faults: []Fault{{Kind: Crash, OneIn: 2, Max: 2}}, clients: [][]ask{{{worker: 0, key: "a"}, {worker: 1, key: "a"}}}}},
	{"a claim and a refusal at every write", 150, game{faults: []Fault{{Kind: RefuseCAS, OneIn: 2}}, clients: [][]ask{{{worker: 0, key: "a"}, {worker: 1, key: "a"}}}}},
}

func TestEveryOrder(t *testing.T) {
	for _, s := range small {
		t.Run(s.name, func(t *testing.T) { every(t, s.limit, s.g) })
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
	for _, kind := range []string{"lost", "200 ", "200 true", "409 idempotency_in_flight", "409 idempotency_outcome_unknown", "503 "} {
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
