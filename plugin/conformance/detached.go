package conformance

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

const continuing = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","principal":["header:x-user"],"anonymous":true,"strip":true,
	"tools":[{"match":"charge","on_disconnect":"continue"},{"match":"stoppable","on_disconnect":"continue","cancel":"stop"},
	{"match":"brief","detach":true,"detach_timeout":"1s"},{"match":"nowhere","detach":true,"detach_cluster":"nowhere"},{"match":"*"}],
	"limits":{"detached":8,"detached_per_scope":4}}},"default":"p"}`

// Detached shows calls that go on without their callers (on_disconnect: continue).
func Detached(t *testing.T, f Front) {
	for kind, answer := range map[string]func(http.ResponseWriter, seen){"JSON": asJSON, "events": asEvents} {
		t.Run("the client leaves, "+kind, func(t *testing.T) {
			works := newGate()
			u := newUpstream(t, func(w http.ResponseWriter, s seen) {
				if works.wait(s) {
					answer(w, s)
				}
			})
			p := f.Start(t, Setup{Config: continuing, Upstream: u.URL, Workers: 4})
			first := newClient(t, p).begin(toolCall("1", "charge", `{}`), "Idempotency-Key", "k", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
				"X-Request-Id", "6f9b7c1e-0000-4000-8000-000000000001", "Connection", "X-Mine", "X-Mine", "1", "X-Theirs", "2", "Accept-Encoding", "gzip")
			u.await(t, 1)
			first.leave()
			all := repeats(t, "charge", "k", 50, p)
			eventually(t, "fifty that wait", func() bool { return p.Counter(t, "callonce_waiting", nil) == 50 })
			works.open()
			wantEqualReplays(t, all)
			wantReplay(t, newClient(t, p).call("8", "charge", `{}`, "k"))
			wantRuns(t, u, 1)
			wantCount(t, p, "callonce_settled_total", map[string]string{"how": "completed"}, 1)
			wantCount(t, p, "callonce_detached_total", map[string]string{"how": "left"}, 1)
			eventually(t, "nothing left over", func() bool {
				return p.Counter(t, "callonce_waiting", nil)+p.Counter(t, "callonce_detached", nil) == 0
			})
			got := u.Seen()[0]
			if got.Method != "POST" || got.Body != toolCall("1", "charge", `{}`) {
				t.Errorf("the server got %s %s", got.Method, got.Body)
			}
			for name, want := range map[string]string{
				"Content-Type": "application/json", "X-Theirs": "2", "X-Mine": "", "Idempotency-Key": "", "Accept-Encoding": "",
				"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			} {
				if got := got.Header.Get(name); got != want {
					t.Errorf("%s: the server got %q, want %q", name, got, want)
				}
			}
		})
		t.Run("the client stays, "+kind, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, s seen) {
				w.Header().Set("X-Server", "there")
				answer(w, s)
			})
			p := f.Start(t, Setup{Config: continuing, Upstream: u.URL})
			c := newClient(t, p)
			r := c.call("1", "charge", `{}`, "k")
			wantFirst(t, r)
			if r.Header.Get("X-Server") != "there" || kind == "events" && !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") || idOf(t, r) != "1" {
				t.Errorf("got %v %s", r.Header, r.Body)
			}
			if kind == "events" && !strings.Contains(r.Body, "notifications/message") {
				t.Errorf("events before the answer are missing: %s", r.Body)
			}
			wantReplay(t, c.call("2", "charge", `{}`, "k"))
			wantRuns(t, u, 1)
		})
	}
	t.Run("what goes wrong", func(t *testing.T) {
		works := newGate()
		t.Cleanup(works.open)
		u := newUpstream(t, func(w http.ResponseWriter, s seen) {
			switch s.Tool {
			case "brief":
				works.wait(s)
			case "charge":
				switch s.Args {
				case `{"status":404}`:
					w.WriteHeader(404)
				case `{"status":500}`:
					w.WriteHeader(500)
				case `{"cut":true}`:
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Content-Length", "400")
					_, _ = io.WriteString(w, result(s)[:20])
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				}
			}
		})
		p := f.Start(t, Setup{Config: continuing, Upstream: u.URL})
		c := newClient(t, p)
		for args, again := range map[string]string{`{"status":404}`: "", `{"status":500}`: unknownOutcome, `{"cut":true}`: unknownOutcome} {
			before := u.Runs()
			c.call("1", "charge", args, args)
			second := c.call("2", "charge", args, args)
			if got := second.isRefusal(); got != again || u.Runs() != before+map[bool]int{true: 1, false: 2}[again != ""] {
				t.Errorf("%s: the repeat got %d %s, %d runs more", args, second.Status, second.Body, u.Runs()-before)
			}
		}
		before := u.Runs()
		if r := c.call("1", "brief", `{}`, "brief"); r.Status != 504 {
			t.Errorf("over its time: got %d %s", r.Status, r.Body)
		}
		wantRefusal(t, c.call("2", "brief", `{}`, "brief"), 409, unknownOutcome)
		if u.Runs() != before+1 {
			t.Errorf("ran %d times", u.Runs()-before)
		}
		for range 2 { // the key is free: nothing was sent
			wantRefusal(t, c.call("1", "nowhere", `{}`, "nowhere"), 503, "idempotency_unavailable")
		}
		if !strings.Contains(p.Logs(), "knows no cluster") {
			t.Error("the log does not say so")
		}
	})
	t.Run("limits and cancellations", func(t *testing.T) {
		works := newGate()
		u := newUpstream(t, func(w http.ResponseWriter, s seen) {
			if s.Rpc == "tools/call" && works.wait(s) {
				asJSON(w, s)
			}
		})
		p := f.Start(t, Setup{Config: continuing, Upstream: u.URL, Workers: 1})
		c := newClient(t, p)
		cancel := func(id string) {
			c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		}
		stopped := c.begin(toolCall("31", "stoppable", `{}`), "Idempotency-Key", "stopped")
		goesOn := c.begin(toolCall("32", "charge", `{}`), "Idempotency-Key", "on")
		u.await(t, 2)
		cancel("31")
		cancel("32")
		wantRefusal(t, stopped.wait(t), 409, unknownOutcome)
		wantRefusal(t, c.call("33", "stoppable", `{}`, "stopped"), 409, unknownOutcome)
		for i := range 3 {
			c.begin(toolCall("1", "charge", `{}`), "Idempotency-Key", string(rune('a'+i)))
		}
		u.await(t, 5)
		wantRefusal(t, c.call("1", "charge", `{}`, "full"), 429, "idempotency_capacity")
		works.open()
		wantFirst(t, goesOn.wait(t))
		eventually(t, "nothing left over", func() bool { return p.Counter(t, "callonce_detached", nil) == 0 })
		wantFirst(t, c.call("1", "charge", `{}`, "full"))
		wantReplay(t, c.call("1", "charge", `{}`, "on"))
		wantRuns(t, u, 6)
	})
}
