package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

const waiting = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","principal":["header:x-user"],"anonymous":true,"on_in_flight":"wait","wait":"30s",
	"tools":[{"match":"brief","wait":"2s"},{"match":"*"}]}},"default":"p"}`

// repeats begins repeats of the call of a key, each on a connection of its own, so that they come to all workers.
func repeats(t *testing.T, tool, key string, n int, proxies ...Proxy) (all []*underway) {
	for i := range n {
		all = append(all, newClient(t, proxies[i%len(proxies)]).begin(toolCall("7", tool, `{}`), "Idempotency-Key", key))
	}
	return all
}

// wantEqualReplays waits for the answers of repeats.
func wantEqualReplays(t *testing.T, all []*underway) {
	t.Helper()
	said := map[string]int{}
	for _, x := range all {
		r := x.wait(t)
		wantReplay(t, r)
		said[r.Body]++
	}
	if len(said) != 1 {
		t.Errorf("%d other answers: %v", len(said), said)
	}
}

// Waiting shows what repeats of a call in flight get that wait for its answer (on_in_flight: wait).
func Waiting(t *testing.T, f Front) {
	for kind, answer := range map[string]func(http.ResponseWriter, seen){"JSON": asJSON, "events": asEvents} {
		t.Run("fifty at once, "+kind, func(t *testing.T) {
			works := newGate()
			u := newUpstream(t, func(w http.ResponseWriter, s seen) {
				if works.wait(s) {
					answer(w, s)
				}
			})
			p := f.Start(t, Setup{Config: waiting, Upstream: u.URL, Workers: 4})
			first := newClient(t, p).begin(toolCall("1", "charge", `{}`), "Idempotency-Key", "k")
			u.await(t, 1)
			all := repeats(t, "charge", "k", 50, p)
			eventually(t, "fifty that wait", func() bool { return p.Counter(t, "callonce_waiting", nil) == 50 })
			wantRefusal(t, newClient(t, p).call("2", "charge", `{"other":1}`, "k"), 409, "idempotency_key_conflict")
			wantRuns(t, u, 1)
			works.open()
			wantFirst(t, first.wait(t))
			wantEqualReplays(t, all)
			wantReplay(t, newClient(t, p).call("8", "charge", `{}`, "k"))
			wantRuns(t, u, 1)
			wantCount(t, p, "callonce_waits_total", map[string]string{"how": "answered", "server": "s"}, 50)
			eventually(t, "nobody that waits", func() bool { return p.Counter(t, "callonce_waiting", nil) == 0 })
		})
	}
	t.Run("how they end", func(t *testing.T) {
		works := newGate()
		t.Cleanup(works.open)
		u := newUpstream(t, func(w http.ResponseWriter, s seen) {
			if works.wait(s) {
				asJSON(w, s)
			}
		})
		p := f.Start(t, Setup{Config: waiting, Upstream: u.URL, Workers: 2})
		c := newClient(t, p)
		brief := c.begin(toolCall("1", "brief", `{}`), "Idempotency-Key", "brief")
		u.await(t, 1)
		begun := time.Now()
		wantRefusal(t, newClient(t, p).call("2", "brief", `{}`, "brief"), 409, "idempotency_in_flight")
		if d := time.Since(begun); d < 500*time.Millisecond || d > 10*time.Second {
			t.Errorf("refused after %v", d)
		}
		first := c.begin(toolCall("1", "charge", `{}`), "Idempotency-Key", "k")
		u.await(t, 2)
		all := repeats(t, "charge", "k", 8, p)
		eventually(t, "eight that wait", func() bool { return p.Counter(t, "callonce_waiting", nil) == 8 })
		for i, x := range all {
			if i%2 == 0 {
				x.leave()
			}
		}
		eventually(t, "four that wait", func() bool { return p.Counter(t, "callonce_waiting", nil) == 4 })
		first.leave() // nobody knows what becomes of the call
		for i, x := range all {
			if i%2 == 1 {
				wantRefusal(t, x.wait(t), 409, unknownOutcome)
			}
		}
		works.open()
		wantFirst(t, brief.wait(t))
		wantRuns(t, u, 2)
		for how, n := range map[string]int64{"in_flight": 1, "left": 4, "refused": 4, "answered": 0} {
			wantCount(t, p, "callonce_waits_total", map[string]string{"how": how}, n)
		}
		if n := p.Counter(t, "callonce_waiting", nil); n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
	t.Run("a key that is free again", func(t *testing.T) {
		works := newGate()
		u := newUpstream(t, func(w http.ResponseWriter, s seen) {
			switch {
			case !works.wait(s):
			case s.Run == 1:
				w.WriteHeader(http.StatusNotFound)
			default:
				asJSON(w, s)
			}
		})
		p := f.Start(t, Setup{Config: waiting, Upstream: u.URL, Workers: 2})
		c := newClient(t, p)
		first := c.begin(toolCall("1", "charge", `{}`), "Idempotency-Key", "k")
		u.await(t, 1)
		all := repeats(t, "charge", "k", 6, p)
		eventually(t, "six that wait", func() bool { return p.Counter(t, "callonce_waiting", nil) == 6 })
		works.open()
		first.wait(t)
		var replayed []string
		for _, x := range all {
			r := x.wait(t)
			if r.Err != nil || r.Status != 200 || r.isRefusal() != "" {
				t.Errorf("got %d, %v: %s", r.Status, r.Err, r.Body)
			}
			replayed = append(replayed, r.Header.Get("Idempotency-Replayed"))
		}
		slices.Sort(replayed)
		if fmt.Sprint(replayed) != "[ true true true true true]" {
			t.Errorf("one runs, and the others get its answer: got %q", replayed)
		}
		wantRuns(t, u, 2)
	})
}
