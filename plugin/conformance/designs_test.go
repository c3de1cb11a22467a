package conformance

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Rows of the designs that this project unites, each by its preset. D13 is
// TestKilledBetweenTheWrites, G14 is in TestLease.

const gateway = `{"namespace":"cases","policies":{"p":{"preset":"gateway","server":"s","principal":["header:x-user"]}},"default":"p"}`

// asAda are the headers of a call under preset gateway.
func asAda(key string) headers {
	return headers{"X-User", "ada", "Mcp-Session-Id", "one", "Idempotency-Key", key}
}

// G8: what the server refused, or never got, frees its key; a 408 or 499 says nothing of
// the kind.
func TestRowG8(t *testing.T) {
	c, u, _ := serveWith(t, simulator{}, gateway, func(w http.ResponseWriter, s seen) {
		var code int
		if _, err := fmt.Sscanf(s.Args, `{"status":%d}`, &code); err == nil {
			w.WriteHeader(code)
		}
	})
	for _, code := range []int{400, 401, 403, 404, 409, 422, 429, 408, 499} {
		before := u.Runs()
		for range 2 {
			if r := c.post(toolCall("1", "charge", fmt.Sprintf(`{"status":%d}`, code)), asAda(fmt.Sprint("k", code))...); r.Status != code && r.isRefusal() != unknownOutcome {
				t.Errorf("%d: found %d %s", code, r.Status, r.Body)
			}
		}
		want := 2
		if code == 408 || code == 499 {
			want = 1
		}
		if got := u.Runs() - before; got != want {
			t.Errorf("%d: the call and its repeat ran %d times, expected %d", code, got, want)
		}
	}
	t.Run("refused before dispatch", func(t *testing.T) {
		// Under the mesh's retries, so that Envoy says more than that nobody listens.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		p := simulator{}.Start(t, Setup{Config: gateway, Upstream: "http://" + l.Addr().String(), Retries: 2})
		c := newClient(t, p)
		for range 3 {
			if r := c.post(toolCall("1", "charge", `{}`), asAda("k")...); r.Status != 503 || r.isRefusal() != "" {
				t.Fatalf("expected the proxy's 503, found %d %s", r.Status, r.Body)
			}
		}
		wantCount(t, p, "callonce_settled_total", map[string]string{"how": "released"}, 3)
	})
}

// G9: a 5xx, a timeout, a disconnect of either side, a body that breaks off: a
// tombstone. The repeat is refused, and never runs.
func TestRowG9(t *testing.T) {
	ends := map[string]func(w http.ResponseWriter, s seen){
		"500":          status(500, "", ""),
		"503":          status(503, "", ""),
		"timeout":      func(w http.ResponseWriter, s seen) { <-s.Gone },
		"reset":        func(w http.ResponseWriter, s seen) { hangUp(w) },
		"body-failure": cutAfter("application/json", `{"jsonrpc":"2.0","id":$ID,"result":{`),
		"client-gone":  func(w http.ResponseWriter, s seen) { <-s.Gone },
	}
	u := newUpstream(t, func(w http.ResponseWriter, s seen) { ends[s.Tool](w, s) })
	p := simulator{}.Start(t, Setup{Config: gateway, Upstream: u.URL, IdleTimeout: 500 * time.Millisecond})
	c := newClient(t, p)
	for how := range ends {
		before := u.Runs()
		first := c.begin(toolCall("1", how, `{}`), asAda(how)...)
		u.await(t, before+1)
		if how == "client-gone" {
			first.leave()
		}
		first.wait(t)
		eventually(t, "the tombstone of "+how, func() bool {
			r := c.post(toolCall("1", how, `{}`), asAda(how)...)
			if r.isRefusal() == unknownOutcome {
				wantRefusal(t, r, 409, unknownOutcome)
				return true
			}
			if !inFlightYet(r) {
				t.Fatalf("%s: found %d %s", how, r.Status, r.Body)
			}
			return false
		})
		if n := u.Runs() - before; n != 1 {
			t.Errorf("%s: ran %d times", how, n)
		}
	}
}

// D5: a derived call is claimed before it works, once; a failed one is taken over, and
// the attempts are counted.
func TestRowD5(t *testing.T) {
	const config = `{"namespace":"cases","policies":{"p":{"preset":"derived","server":"s","principal":["header:x-user"],"log":["tool","attempt"],
		"tools":[{"match":"careful"},{"match":"lost","on_unknown":"retry"},{"match":"fails"}]}},"default":"p"}`
	works := newGate()
	u := newUpstream(t, func(w http.ResponseWriter, s seen) {
		switch {
		case s.Tool == "careful" && !works.wait(s):
		case s.Tool == "lost" && s.Run%2 == 0:
			hangUp(w)
		case s.Tool == "fails":
			writeJSON(w, `{"jsonrpc":"2.0","id":`+s.ID+`,"result":{"isError":true,"content":[]}}`)
		default:
			asJSON(w, s)
		}
	})
	p := simulator{}.start(t, Setup{Config: config, Upstream: u.URL})
	c := newClient(t, p)
	const at = 20
	var all sync.WaitGroup
	refused := make(chan string, at)
	for i := range at {
		all.Go(func() {
			r := c.call(fmt.Sprint(i), "careful", `{}`, "", "X-User", "ada")
			if strings.Contains(r.Body, "idempotency_in_flight") {
				refused <- r.Body
				if len(refused) == at-1 {
					works.open()
				}
			}
		})
	}
	all.Wait()
	wantRuns(t, u, 1)
	for _, tool := range []string{"lost", "fails"} {
		before := u.Runs()
		for range 2 {
			c.call("1", tool, `{}`, "", "X-User", "ada")
		}
		if n := u.Runs() - before; n != 2 {
			t.Errorf("%s: ran %d times, expected to be taken over once", tool, n)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var attempts []string
	for _, r := range p.records {
		if r.FilterState["callonce.tool"] == "lost" {
			attempts = append(attempts, r.FilterState["callonce.attempt"])
		}
	}
	if fmt.Sprint(attempts) != "[1 2]" {
		t.Errorf("attempts: expected [1 2], found %v", attempts)
	}
}
