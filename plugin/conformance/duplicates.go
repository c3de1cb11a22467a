package conformance

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Duplicates and ids.
var duplicates = []Case{
	{1, "four-at-once-under-four-ids", true, fourAtOnce},
	{2, "two-calls-in-flight-under-one-id", false, oneID},
	{3, "two-principals", true, twoPrincipals},
	{4, "the-asking-id-is-put-in", true, askingID},
	{5, "reset-after-the-run", true, resetAfterRun},
	{7, "two-calls-repeated-in-order", true, repeatedInOrder},
	{8, "event-stream-without-the-response", true, noResponse},
	{10, "the-mesh's-own-retries", true, meshRetries},
}

func fourAtOnce(t *testing.T, f Front) {
	c, u, _ := serve(t, f, func(w http.ResponseWriter, s seen) {
		time.Sleep(100 * time.Millisecond)
		asJSON(w, s)
	})
	const n = 4
	got := make([]reply, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			got[i] = c.call(fmt.Sprint(100+i), "charge", `{"amount":5}`, "k1")
		}()
	}
	wg.Wait()
	wantRuns(t, u, 1)
	first := 0
	for i, r := range got {
		if id := idOf(t, r); id != fmt.Sprint(100+i) {
			t.Errorf("caller %d: its answer has the id %s", 100+i, id)
		}
		switch {
		case r.isRefusal() == "idempotency_in_flight":
			f := wantRefusal(t, r, 409, "idempotency_in_flight")
			if f.Error.Code != -31410 || f.Error.Data.MayHaveRun != "running" || f.Error.Data.Retry != "same_key_later" || r.Header.Get("Retry-After") != "1" {
				t.Errorf("not the refusal of the contract: %s, Retry-After %q", r.Body, r.Header.Get("Retry-After"))
			}
		case r.Header.Get("Idempotency-Replayed") == "true":
			wantReplay(t, r)
		default:
			wantFirst(t, r)
			first++
		}
	}
	if first != 1 {
		t.Errorf("%d first answers, expected 1", first)
	}
	wantReplay(t, c.call("200", "charge", `{"amount":5}`, "k1"))
	wantRuns(t, u, 1)
}

func oneID(t *testing.T, f Front) {
	for name, keys := range map[string][2]string{"without keys": {"", ""}, "with keys": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			both := newGate()
			c, u, _ := serve(t, f, func(w http.ResponseWriter, s seen) {
				if both.wait(s) {
					writeJSON(w, `{"jsonrpc":"2.0","id":`+s.ID+`,"result":{"structuredContent":`+s.Args+`}}`)
				}
			})
			args := [2]string{`{"for":"ada"}`, `{"for":"bob"}`}
			var calls [2]*underway
			for i := range calls {
				h := headers{"Mcp-Session-Id", "one"}
				if keys[i] != "" {
					h = append(h, "Idempotency-Key", keys[i])
				}
				calls[i] = c.begin(toolCall("1", "charge", args[i]), h...)
			}
			u.await(t, 2)
			both.open()
			for i, call := range calls {
				r := call.wait(t)
				wantFirst(t, r)
				if want := `"structuredContent":` + args[i]; !strings.Contains(r.Body, want) || idOf(t, r) != "1" {
					t.Errorf("call %d: expected %s under the id 1, found %s", i, want, r.Body)
				}
			}
			wantRuns(t, u, 2)
		})
	}
}

func meshRetries(t *testing.T, f Front) {
	u := newUpstream(t, func(w http.ResponseWriter, s seen) { w.WriteHeader(503) })
	c := newClient(t, f.Start(t, Setup{Config: plain, Upstream: u.URL, Retries: 2}))
	if r := c.call("1", "charge", `{}`, "k"); r.Status != 503 || r.isRefusal() != "" {
		t.Fatalf("expected the server's 503, found %d %s", r.Status, r.Body)
	}
	wantRuns(t, u, 1)
	wantRefusal(t, c.call("2", "charge", `{}`, "k"), 409, "idempotency_outcome_unknown")
	wantRuns(t, u, 1)
	// The route does retry: what nobody guards is sent as often as the mesh likes.
	if r := c.post(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, "Mcp-Method", "tools/list"); r.Status != 503 {
		t.Fatalf("expected the server's 503, found %d %s", r.Status, r.Body)
	}
	if n := len(u.Seen()); n != 1+3 {
		t.Errorf("the route sent another request %d times, expected 3", n-1)
	}
}

func twoPrincipals(t *testing.T, f Front) {
	c, u, _ := serve(t, f, asJSON)
	a := c.call("1", "charge", `{"amount":5}`, "k", "X-User", "ada")
	b := c.call("1", "charge", `{"amount":5}`, "k", "X-User", "bob")
	wantFirst(t, a)
	wantFirst(t, b)
	wantRuns(t, u, 2)
	if a.Body == b.Body {
		t.Fatal("two principals were given one answer")
	}
	for user, want := range map[string]string{"ada": a.Body, "bob": b.Body} {
		again := c.call("1", "charge", `{"amount":5}`, "k", "X-User", user)
		wantReplay(t, again)
		if again.Body != want {
			t.Errorf("%s was given %s, expected %s", user, again.Body, want)
		}
	}
	wantRuns(t, u, 2)
}

func askingID(t *testing.T, f Front) {
	for name, answer := range map[string]func(http.ResponseWriter, seen){"json": asJSON, "sse": asEvents} {
		t.Run(name, func(t *testing.T) {
			c, u, _ := serve(t, f, answer)
			first := c.call("7", "charge", `{"amount":5}`, "k")
			wantFirst(t, first)
			for i, id := range []string{"8", `"a string"`, "-1", "12345678901234567890", `"\u0041\"b"`} {
				r := c.call(id, "charge", `{"amount":5}`, "k")
				wantReplay(t, r)
				want := strings.Replace(first.message(t), `"id":7`, `"id":`+id, 1)
				if got := r.message(t); got != want {
					t.Errorf("repeat %d: expected %s, found %s", i, want, got)
				}
				if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
					t.Errorf("a client that takes JSON was given %s", r.Header.Get("Content-Type"))
				}
				if !strings.Contains(r.Body, `"structuredContent":{"run":1,"id":7}`) {
					t.Errorf("an id inside the result changed: %s", r.Body)
				}
			}
			r := c.call("9", "charge", `{"amount":5}`, "k", "Accept", "text/event-stream")
			wantReplay(t, r)
			if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") || idOf(t, r) != "9" {
				t.Errorf("a client that takes events only was given %s %s", r.Header.Get("Content-Type"), r.Body)
			}
			wantRuns(t, u, 1)
		})
	}
}

func resetAfterRun(t *testing.T, f Front) {
	c, u, p := serve(t, f, func(w http.ResponseWriter, s seen) { hangUp(w) })
	if r := c.call("1", "charge", `{}`, "k"); r.Status != 503 && r.Status != 502 && r.Err == nil {
		t.Fatalf("a reset before any answer: expected the proxy's 503, found %d %s", r.Status, r.Body)
	}
	for i := range 5 {
		got := wantRefusal(t, c.call(fmt.Sprint(2+i), "charge", `{}`, "k"), 409, "idempotency_outcome_unknown")
		if got.Error.Data.MayHaveRun != "unknown" || got.Error.Data.Retry != "reconcile_first" || got.Error.Code != -31411 {
			t.Fatalf("not the refusal of the contract: %+v", got)
		}
	}
	wantRefusal(t, c.call("9", "charge", `{"other":1}`, "k"), 409, "idempotency_key_conflict")
	wantRuns(t, u, 1)
	wantCount(t, p, "mcp_gateway_idempotency_total", map[string]string{"outcome": "unknown_outcome", "server": "s", "namespace": "cases"}, 5)
}

func repeatedInOrder(t *testing.T, f Front) {
	c, u, _ := serve(t, f, asEvents)
	for i, key := range []string{"a", "b"} {
		wantFirst(t, c.call(fmt.Sprint(i), "charge", `{"for":"`+key+`"}`, key))
	}
	for i, key := range []string{"a", "b", "b", "a"} {
		r := c.call(fmt.Sprint(10+i), "charge", `{"for":"`+key+`"}`, key)
		wantReplay(t, r)
		if want := map[string]string{"a": "run 1 of", "b": "run 2 of"}[key]; !strings.Contains(r.Body, want) {
			t.Errorf("key %s: expected the answer %q, found %s", key, want, r.Body)
		}
	}
	wantRuns(t, u, 2)
}

func noResponse(t *testing.T, f Front) {
	c, u, _ := serve(t, f, func(w http.ResponseWriter, s seen) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: 1\ndata:\n\n")
	})
	if r := c.call("1", "charge", `{}`, "k"); r.Status != 200 || r.Err != nil {
		t.Fatalf("the server's stream did not pass: %d %v", r.Status, r.Err)
	}
	wantRefusal(t, c.call("2", "charge", `{}`, "k"), 409, "idempotency_outcome_unknown")
	wantRuns(t, u, 1)
}
