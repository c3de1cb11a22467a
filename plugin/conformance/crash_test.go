package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// killer ends worker 0's VM at the n-th host call from when it is armed.
type killer struct {
	mu      sync.Mutex
	left    int // calls until then; 0 = not armed
	died    bool
	decided bool // while armed, a bucket was written
}

func (k *killer) arm(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left, k.died, k.decided = n, false, false
}

// disarm reports whether the VM died, and whether a bucket had been written by then.
func (k *killer) disarm() (died, decided bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left = 0
	return k.died, k.decided
}

func (k *killer) before(c *hostsim.Call) hostsim.Verdict {
	if c.Worker != 0 || c.Function == "proxy_log" {
		return hostsim.Proceed()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == 0 {
		return hostsim.Proceed()
	}
	if k.left--; k.left == 0 {
		k.died = true
		return hostsim.Crash()
	}
	if c.Function == "proxy_set_shared_data" && strings.Contains(string(c.Key), "/b/") {
		k.decided = true
	}
	return hostsim.Proceed()
}

// Case 40 (design row D13): the worker is killed between the server's answer and the
// last of what it writes about it, at every host call in turn. The tool runs once.
func TestKilledBetweenTheWrites(t *testing.T) {
	for name, config := range map[string]string{
		"a key":          plain,
		"preset derived": `{"namespace":"cases","policies":{"p":{"preset":"derived","reply":"http","marker":"none","server":"s","principal":["header:x-user"],"anonymous":true}},"default":"p"}`,
	} {
		t.Run(name, func(t *testing.T) {
			k := &killer{}
			at := 0
			f := simulator{adjust: func(c *hostsim.Config) { c.Hooks.Before = k.before }}
			c, u, _, clock := timed(t, f, config, func(w http.ResponseWriter, s seen) {
				k.arm(at) // the call has left: all that follows is about its answer
				asJSON(w, s)
			})
			unknown := 0
			for at = 1; ; at++ {
				if at > 200 {
					t.Fatal("the answer takes more than 200 host calls")
				}
				call := func(id string, worker int) reply {
					h := on(worker)
					if name == "a key" {
						h = append(h, "Idempotency-Key", fmt.Sprint("k", at))
					}
					return c.post(toolCall(id, "charge", fmt.Sprintf(`{"n":%d}`, at)), h...)
				}
				call("1", 0)
				died, decided := k.disarm()
				wantRuns(t, u, at)
				if !died {
					wantReplay(t, call("2", 1))
					break
				}
				if decided {
					wantReplay(t, call("2", 1))
				} else {
					unknown++
					wantRefusal(t, call("2", 1), 409, "idempotency_in_flight")
					clock.Advance(15 * time.Second)
					wantRefusal(t, call("3", 1), 409, unknownOutcome)
				}
				clock.Advance(time.Second) // so that the VM may come back
				r := call("4", 0)
				if decided {
					wantReplay(t, r)
				} else {
					wantRefusal(t, r, 409, unknownOutcome)
				}
				wantRuns(t, u, at)
			}
			if unknown == 0 || unknown == at-1 {
				t.Errorf("%d deaths, %d of them before the answer was kept: the kill was not in every place", at-1, unknown)
			}
			t.Logf("%d deaths, %d of them before the answer was kept", at-1, unknown)
		})
	}
}

// Case 41, its end: after a crash at any host call of a whole call, the counts are right
// again within the lease and two passes of the sweep: neither is a unit of quota lost, nor is
// one given out twice.
func TestCountsAfterACrashAnywhere(t *testing.T) {
	const config = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","principal":["header:x-user"],"lease":"2s","ttl":"10m","limits":{
		"entries":1000,"entries_per_principal":3,"entries_per_scope":3,"in_flight":16,"in_flight_per_principal":2,"in_flight_per_scope":2,"tombstones_per_scope":3}}},"default":"p"}`
	k := &killer{}
	f := simulator{wasm: small, adjust: func(c *hostsim.Config) { c.Hooks.Before = k.before }}
	var works atomic.Pointer[gate]
	c, u, _, clock := timed(t, f, config, func(w http.ResponseWriter, s seen) {
		if !strings.Contains(s.Args, "held") || works.Load().wait(s) {
			asJSON(w, s)
		}
	})
	deaths, died := 0, true
	for at := 1; died; at++ {
		if at > 300 {
			t.Fatal("a call takes more than 300 host calls")
		}
		user := func(worker int) headers { return append(on(worker), "X-User", fmt.Sprint("u", at)) }
		k.arm(at)
		c.call("1", "charge", `{}`, "a", user(0)...)
		if died, _ = k.disarm(); died {
			deaths++
		}
		clock.Advance(20 * time.Second)
		again := c.call("2", "charge", `{}`, "a", user(1)...)
		if again.Status != 200 && again.isRefusal() != unknownOutcome {
			t.Fatalf("killed at host call %d, the call again: %d %v %s", at, again.Status, again.Err, again.Body)
		}
		// One entry there is. Two more may come, in flight at once; a fourth may not.
		works.Store(newGate())
		before := u.Runs()
		var held []*underway
		for i, key := range []string{"b", "c"} {
			held = append(held, c.begin(toolCall("3", "charge", `{"held":1}`), append(user(1), "Idempotency-Key", key)...))
			u.await(t, before+i+1)
		}
		wantRefusal(t, c.call("4", "charge", `{}`, "d", user(1)...), 429, "idempotency_capacity")
		works.Load().open()
		for _, h := range held {
			wantFirst(t, h.wait(t))
		}
		wantRefusal(t, c.call("5", "charge", `{}`, "d", user(1)...), 429, "idempotency_capacity")
	}
	if deaths < 30 {
		t.Errorf("only %d places to die in: the kill was not in every place", deaths)
	}
	t.Logf("%d deaths", deaths)
	// And for the policy as a whole: sixteen in flight, of which nobody is left over.
	works.Store(newGate())
	before := u.Runs()
	var held []*underway
	for i := range 16 {
		held = append(held, c.begin(toolCall("6", "charge", `{"held":1}`), append(on(i%2), "X-User", fmt.Sprint("v", i), "Idempotency-Key", "k")...))
		u.await(t, before+i+1)
	}
	wantRefusal(t, c.call("7", "charge", `{}`, "k", append(on(0), "X-User", "w")...), 429, "idempotency_capacity")
	works.Load().open()
	for _, h := range held {
		wantFirst(t, h.wait(t))
	}
}
