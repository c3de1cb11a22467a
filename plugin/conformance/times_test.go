package conformance

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// timed starts hostsim on a clock that moves only when told, with every request on the
// worker that its header X-Worker names.
func timed(t *testing.T, f simulator, config string, answer func(http.ResponseWriter, seen)) (*client, *upstream, *simulated, *hostsim.ManualClock) {
	t.Helper()
	clock := hostsim.NewManualClock(time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC))
	f.pick = byHeader
	adjust := f.adjust
	f.adjust = func(c *hostsim.Config) {
		c.Clock = clock
		if adjust != nil {
			adjust(c)
		}
	}
	u := newUpstream(t, answer)
	p := f.start(t, Setup{Config: config, Upstream: u.URL})
	return newClient(t, p), u, p, clock
}

// on names the worker of a request.
func on(worker int) headers { return headers{"X-Worker", fmt.Sprint(worker)} }

// Case 39: a key lasts its time to the nanosecond, by a clock that no step of the
// wall moves.
func TestRetention(t *testing.T) {
	const config = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","anonymous":true,"ttl":"20s","tools":[{"match":"charge","guard":"derived","window":"60s"}]}},"default":"p"}`
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		for _, c := range []struct {
			name, key string
			works     time.Duration // from the claim to the answer
			lasts     time.Duration // from the answer on
			fails     bool          // what is remembered is an unknown outcome
		}{
			{"a key", "k", 0, 20 * time.Second, false},
			{"a key, slow", "k", 90 * time.Second, 20 * time.Second, false},
			{"an unknown outcome", "k", 0, 20 * time.Second, true},
			{"derived", "", 0, 60 * time.Second, false},
			{"derived, slow", "", 30 * time.Second, 30 * time.Second, false},
			{"derived, slower than its window", "", 90 * time.Second, 20 * time.Second, false},
		} {
			t.Run(fmt.Sprint(c.name, ", wall ", step), func(t *testing.T) {
				works := newGate()
				cl, u, _, clock := timed(t, simulator{}, config, func(w http.ResponseWriter, s seen) {
					switch {
					case s.Run == 1 && !works.wait(s):
					case c.fails:
						hangUp(w)
					default:
						asJSON(w, s)
					}
				})
				h := on(0)
				if c.key != "" {
					h = append(h, "Idempotency-Key", c.key)
				}
				first := cl.begin(toolCall("1", "charge", `{}`), h...)
				u.await(t, 1)
				clock.Advance(c.works)
				works.open()
				first.wait(t)
				clock.Step(step)
				clock.Advance(c.lasts - 1)
				for worker := range 2 {
					h[1] = fmt.Sprint(worker)
					r := cl.post(toolCall("2", "charge", `{}`), h...)
					if c.fails {
						wantRefusal(t, r, 409, unknownOutcome)
					} else {
						wantReplay(t, r)
					}
				}
				wantRuns(t, u, 1)
				clock.Step(-step)
				clock.Advance(1)
				cl.post(toolCall("3", "charge", `{}`), h...)
				wantRuns(t, u, 2)
			})
		}
	}
}

// Case 13 and 14 to the nanosecond: a killed worker's call is in flight until its
// lease has passed, one that lives holds it for an hour, whoever asks. Row G14 of the
// designs: under preset gateway too.
func TestLease(t *testing.T) {
	for name, config := range map[string]string{"killed": plain, "alive": plain, "alive, preset gateway": gateway} {
		killed := name == "killed"
		t.Run(name, func(t *testing.T) {
			works := newGate()
			c, u, p, clock := timed(t, simulator{}, config, func(w http.ResponseWriter, s seen) {
				if works.wait(s) {
					asJSON(w, s)
				}
			})
			call := func(worker int) reply {
				return c.post(toolCall("1", "charge", `{}`), append(on(worker), asAda("k")...)...)
			}
			first := c.begin(toolCall("1", "charge", `{}`), append(on(0), asAda("k")...)...)
			u.await(t, 1)
			inFlight := func() {
				t.Helper()
				for worker := range 2 {
					wantRefusal(t, call(worker), 409, "idempotency_in_flight")
				}
			}
			if !killed {
				clock.Advance(time.Hour)
				inFlight()
				works.open()
				wantFirst(t, first.wait(t))
				wantReplay(t, call(1))
				return
			}
			clock.Advance(2 * time.Second) // its last sign of life, at a tick
			if err := p.host.Crash(0); err != nil {
				t.Fatal(err)
			}
			clock.Advance(15*time.Second - 1)
			inFlight() // on a worker that was reloaded too
			clock.Advance(1)
			for worker := range 2 {
				wantRefusal(t, call(worker), 409, unknownOutcome)
			}
			works.open() // the answer that comes now reaches nobody
			first.wait(t)
			clock.Advance(20 * time.Second)
			wantRefusal(t, call(0), 409, unknownOutcome)
			wantRuns(t, u, 1)
			clock.Advance(time.Second)
			wantCount(t, p, "callonce_settled_total", map[string]string{"how": "orphaned"}, 1)
		})
	}
}
