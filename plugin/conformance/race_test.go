package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// barrier holds the workers' claims until two of them have read the ledger and
// neither has written: the moment in which two owners are made, where the claim is
// no true compare-and-swap.
type barrier struct {
	part string  // of the keys that are written with care: "/b/" of buckets, "/p/" of pages
	nth  int     // which write to such a key waits, of those of one worker, from 0
	cas  *uint32 // what all of them are written with instead, nil = as the filter says

	mu      sync.Mutex
	meeting chan struct{}
	arrived bool
	writes  map[int]int // of each worker, since it was armed
}

func (b *barrier) before(c *hostsim.Call) hostsim.Verdict {
	if c.Function != "proxy_set_shared_data" || !strings.Contains(string(c.Key), b.part) || c.Worker < 0 {
		return hostsim.Proceed()
	}
	if b.cas != nil {
		c.CAS = *b.cas
	}
	b.mu.Lock()
	n := b.writes[c.Worker]
	if b.meeting != nil {
		b.writes[c.Worker]++
	}
	if n != b.nth {
		b.mu.Unlock()
		return hostsim.Proceed()
	}
	meeting := b.meeting
	if meeting != nil && b.arrived {
		close(meeting) // the other one waits: both go
		b.meeting = nil
		b.mu.Unlock()
		return hostsim.Proceed()
	}
	b.arrived = true
	b.mu.Unlock()
	if meeting != nil {
		select {
		case <-meeting:
		case <-time.After(10 * time.Second):
		}
	}
	return hostsim.Proceed()
}

// arm makes the next two claims meet.
func (b *barrier) arm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.meeting, b.arrived, b.writes = make(chan struct{}), false, map[int]int{}
}

// claimsMeet races two identical calls on two workers, rounds times, and gives how
// often the tool ran in each round.
func claimsMeet(t *testing.T, b *barrier, rounds int) (runs []int) {
	f := simulator{pick: byHeader, adjust: func(c *hostsim.Config) { c.Hooks.Before = b.before }}
	c, u, _ := serve(t, f, func(w http.ResponseWriter, s seen) {
		time.Sleep(20 * time.Millisecond)
		asJSON(w, s)
	})
	for i := range 2 {
		wantFirst(t, c.call("1", "charge", `{}`, fmt.Sprint("warm", i), "X-Worker", fmt.Sprint(i)))
	}
	for round := range rounds {
		before := u.Runs()
		b.arm()
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				c.call(fmt.Sprint(i), "charge", `{}`, fmt.Sprint("round", round), "X-Worker", fmt.Sprint(i))
			}()
		}
		wg.Wait()
		runs = append(runs, u.Runs()-before)
	}
	return runs
}

// byHeader lets a request name its worker.
func byHeader(r *http.Request) int {
	n, _ := strconv.Atoi(r.Header.Get("X-Worker"))
	return n
}

// Case 28: two workers between get and set have one owner.
func TestTwoWorkersBetweenGetAndSet(t *testing.T) {
	for round, n := range claimsMeet(t, &barrier{part: "/b/"}, 30) {
		if n != 1 {
			t.Errorf("round %d: the tool ran %d times", round, n)
		}
	}
}

// The same with the claim replaced by get-then-set (cas 0 overwrites): both workers
// win, every time. It shows that the test above can fail.
func TestGetThenSetHasTwoOwners(t *testing.T) {
	overwrite := uint32(0)
	for round, n := range claimsMeet(t, &barrier{part: "/b/", cas: &overwrite}, 30) {
		if n != 2 {
			t.Errorf("round %d: the tool ran %d times; held between get and set, get-then-set must give two owners", round, n)
		}
	}
}

// callers send two calls that have a level in common, and none below it: the scope, the
// principal, or the policy alone.
var callers = [3][2]headers{
	{{"X-User", "ada", "X-Tenant", "one"}, {"X-User", "ada", "X-Tenant", "one"}},
	{{"X-User", "ada", "X-Tenant", "one"}, {"X-User", "ada", "X-Tenant", "two"}},
	{{"X-User", "ada", "X-Tenant", "one"}, {"X-User", "bob", "X-Tenant", "one"}},
}

// lastQuota races two calls for the only quota in flight of a level, rounds times, and
// gives how many were let through in each round. Those that were not must have been
// refused for want of quota. A claim writes one page for each level, innermost first.
func lastQuota(t *testing.T, b *barrier, level, rounds int) (through []int) {
	const config = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","principal":["header:x-user"],"scope":["header:x-tenant"],"limits":{
		"in_flight":1,"in_flight_per_principal":1,"in_flight_per_scope":1}}},"default":"p"}`
	var works atomic.Pointer[gate]
	works.Store(newGate())
	c, u, _, _ := timed(t, simulator{adjust: func(c *hostsim.Config) { c.Hooks.Before = b.before }}, config, func(w http.ResponseWriter, s seen) {
		if works.Load().wait(s) {
			asJSON(w, s)
		}
	})
	works.Load().open()
	b.nth = level
	for i, h := range callers[level] {
		wantFirst(t, c.call("1", "charge", `{}`, fmt.Sprint("warm", i), append(on(i), h...)...))
	}
	for round := range rounds {
		works.Store(newGate())
		before := u.Runs()
		b.arm()
		var calls [2]*underway
		for i, h := range callers[level] {
			calls[i] = c.begin(toolCall("1", "charge", `{}`), slices.Concat(on(i), h, headers{"Idempotency-Key", fmt.Sprint("k", round, "-", i)})...)
		}
		// Each is refused, or reaches the server and waits there.
		refused := 0
		eventually(t, "both calls", func() bool {
			for _, call := range calls {
				select {
				case r := <-call.reply:
					wantRefusal(t, r, 429, "idempotency_capacity")
					refused++
				default:
				}
			}
			return refused+u.Runs()-before == len(calls)
		})
		through = append(through, len(calls)-refused)
		works.Load().open()
		for range through[round] {
			select {
			case r := <-calls[0].reply:
				wantFirst(t, r)
			case r := <-calls[1].reply:
				wantFirst(t, r)
			}
		}
	}
	return through
}

// Case 41: two workers race for the last quota of a limit, at each of the levels: one
// claims it.
func TestLastPlaceIsGivenOnce(t *testing.T) {
	for level := range callers {
		for round, n := range lastQuota(t, &barrier{part: "/p/"}, level, 10) {
			if n != 1 {
				t.Errorf("level %d, round %d: %d calls were let through", level, round, n)
			}
		}
	}
}

// The same where pages are overwritten: both get through. It shows that the test above
// can fail.
func TestOverwrittenPagesGiveTheLastPlaceTwice(t *testing.T) {
	overwrite := uint32(0)
	for round, n := range lastQuota(t, &barrier{part: "/p/", cas: &overwrite}, len(callers)-1, 5) {
		if n != 2 {
			t.Errorf("round %d: %d calls were let through; held between get and set, an overwritten page must let both", round, n)
		}
	}
}

// Case 46: the slot of an answer is taken by another key's between a reader's two reads,
// of the entry and of the reply: the reader says that the reply is gone, and never
// answers with the other's.
func TestPlaceReusedBetweenTwoReads(t *testing.T) {
	const config = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","anonymous":true,"limits":{"reply_bytes":256,"stored_bytes":256}}},"default":"p"}`
	reading, goOn := make(chan struct{}), make(chan struct{})
	var held sync.Once
	f := simulator{wasm: small, adjust: func(c *hostsim.Config) {
		c.Hooks.Before = func(c *hostsim.Call) hostsim.Verdict {
			if c.Worker == 1 && c.Function == "proxy_get_shared_data" && strings.Contains(string(c.Key), "/r/") {
				held.Do(func() {
					close(reading)
					<-goOn
				})
			}
			return hostsim.Proceed()
		}
	}}
	c, u, _, _ := timed(t, f, config, asJSON)
	wantFirst(t, c.call("1", "charge", `{"for":"ada"}`, "a", on(0)...))
	reader := c.begin(toolCall("2", "charge", `{"for":"ada"}`), append(on(1), "Idempotency-Key", "a")...)
	<-reading
	wantFirst(t, c.call("1", "charge", `{"for":"bob"}`, "b", on(0)...))
	close(goOn)
	r := reader.wait(t)
	if strings.Contains(r.Body, "run 2") {
		t.Fatalf("a key was answered with another key's reply: %s", r.Body)
	}
	wantRefusal(t, r, 409, notReplayable)
	wantRefusal(t, c.call("3", "charge", `{"for":"ada"}`, "a", on(0)...), 409, notReplayable)
	wantReplay(t, c.call("4", "charge", `{"for":"bob"}`, "b", on(1)...))
	wantRuns(t, u, 2)
}
