package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The operators' path lies below the route of the calls here; envoy/README.md gives it a route of its own.
const operated = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s",
	"principal":["metadata:envoy.filters.http.jwt_authn/payload/sub"],
	"operators":{"principal":["metadata:envoy.filters.http.jwt_authn/payload/roles=ops","peer:uri_san=spiffe://cases/ops"],"path":"/mcp/keys","callers":true}}},"default":"p"}`

// operatedKey is a key as operators see it.
type operatedKey struct {
	Path, Operation, State, Tool, Cause, Resolved string
	Status                                        int
}

// Operators lists the keys that nobody knows the outcome of, resolves one each way, and tells what their repeats get.
func Operators(t *testing.T, f Front) {
	u := newUpstream(t, func(w http.ResponseWriter, s seen) {
		switch {
		case strings.Contains(s.Body, `"crash"`):
			hangUp(w)
		default:
			http.Error(w, "nobody knows", http.StatusBadGateway)
		}
	})
	p := f.Start(t, Setup{Config: operated, Upstream: u.URL, Callers: true})
	as := func(who Caller) *client {
		c := newClient(t, p)
		return &client{c.t, c.url, &http.Client{Transport: p.(Verifier).Caller(t, who), Timeout: c.http.Timeout}, c.eventual}
	}
	at := func(c *client, path string) *client {
		base, _, _ := strings.Cut(c.url, "/mcp")
		return &client{c.t, base + path, c.http, c.eventual}
	}
	ada, bob := as(Caller{Issuer: First, Subject: "ada"}), as(Caller{Issuer: First, Subject: "bob"})
	ops := as(Caller{Issuer: First, Subject: "olga", Claims: map[string]any{"roles": []any{"dev", "ops"}}})
	certified := as(Caller{URI: "spiffe://cases/ops"})

	for _, key := range []string{"released", "refused", "completed_elsewhere"} {
		if r := ada.call("1", "charge", `{"secret":"argument"}`, "secret-"+key); r.Status != 502 {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
	}
	ada.call("1", "charge", `{"how":"crash"}`, "secret-crash")
	runs := u.Runs()

	for name, c := range map[string]*client{"a caller": ada, "a stranger": as(Caller{URI: "spiffe://cases/ops", Stranger: true, Issuer: First, Subject: "ada"})} {
		if r := at(c, "/mcp/keys").do("GET", "", nil); r.Status != 403 {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	list := func(query string) (keys []operatedKey) {
		t.Helper()
		from := ""
		for {
			r := at(ops, "/mcp/keys?limit=500"+query+from).do("GET", "", nil)
			var page struct {
				Keys []operatedKey
				Next string
			}
			if err := json.Unmarshal([]byte(r.Body), &page); r.Status != 200 || err != nil {
				t.Fatalf("%d %s: %v", r.Status, r.Body, err)
			}
			for _, secret := range []string{"secret", "ada", "argument"} {
				if strings.Contains(r.Body, secret) {
					t.Errorf("%s is shown: %s", secret, r.Body)
				}
			}
			keys = append(keys, page.Keys...)
			if page.Next == "" {
				return keys
			}
			from = "&at=" + page.Next
		}
	}
	keys := list("&state=outcome_unknown")
	for began := time.Now(); time.Since(began) < ada.eventual && len(keys) < 4; {
		time.Sleep(eventualPause)
		keys = list("&state=outcome_unknown")
	}
	if len(keys) != 4 {
		t.Fatalf("%d keys are shown: %+v", len(keys), keys)
	}
	byOperation := map[string]operatedKey{}
	causes := map[string]int{}
	for _, k := range keys {
		byOperation[k.Operation] = k
		causes[fmt.Sprint(k.Cause, " ", k.Status)]++
	}
	if causes["status_5xx 502"] != 3 || len(causes) != 2 {
		t.Errorf("how they came to be unknown: %v", causes)
	}
	if n := len(list("&state=completed")); n != 0 {
		t.Errorf("%d keys are completed", n)
	}

	for _, to := range []string{"refused", "completed_elsewhere", "released"} {
		repeat := func(id string) reply {
			return ada.call(id, "charge", `{"secret":"argument"}`, "secret-"+to)
		}
		refused := wantRefusal(t, repeat("2"), 409, "idempotency_outcome_unknown").Error.Data
		k := byOperation[refused.Operation]
		own := at(ada, refused.StatusPath).do("GET", "", nil)
		if own.Status != 200 || !strings.Contains(own.Body, `"state":"outcome_unknown"`) || strings.Contains(own.Body, "tool") {
			t.Errorf("its caller sees %d %s at %s", own.Status, own.Body, refused.StatusPath)
		}
		if r := at(bob, refused.StatusPath).do("GET", "", nil); r.Status != 404 {
			t.Errorf("another caller sees %d %s", r.Status, r.Body)
		}
		more := "?"
		if strings.Contains(k.Path, "?") {
			more = "&"
		}
		act := k.Path + more + "to=" + to + "&reason=looked%20into%20the%20books"
		if r := at(ada, act).do("POST", "", headers{"Content-Type", "application/json"}); r.Status != 403 {
			t.Errorf("%s by its caller: %d %s", to, r.Status, r.Body)
		}
		if r := at(certified, act).do("POST", "", headers{"Content-Type", "application/json"}); r.Status != 200 || !strings.Contains(r.Body, `"resolved":"`+to+`"`) {
			t.Fatalf("%s: %d %s", to, r.Status, r.Body)
		}
		switch r := repeat(`"again"`); to {
		case "refused":
			wantRefusal(t, r, 409, "idempotency_outcome_unknown")
		case "completed_elsewhere":
			wantReplay(t, r)
			if !strings.Contains(r.Body, `"callonce.dev/completed_elsewhere":true`) || !strings.Contains(r.Body, `"id":"again"`) || strings.Contains(r.Body, "isError") {
				t.Errorf("a repeat gets %s", r.Body)
			}
		case "released":
			if runs++; r.Status != 502 {
				t.Errorf("a repeat gets %d %s", r.Status, r.Body)
			}
		}
		wantRuns(t, u, runs)
		wantCount(t, p, "callonce_operator_acts_total", map[string]string{"namespace": "cases", "server": "s", "how": to}, 1)
		if log := p.Logs(); !strings.Contains(log, "resolved the key "+k.Operation) || strings.Contains(log, "spiffe://cases/ops") {
			t.Errorf("the log says nothing of it, or who it was: %s", log)
		}
	}
	wantCount(t, p, "callonce_operator_acts_total", map[string]string{"how": "denied"}, 5)
}
