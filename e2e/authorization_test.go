package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/callonce/callonce/e2e/callers"
	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/plugin/conformance"
)

// yamlBlock gives the block of YAML in envoy/README.md that begins so.
func yamlBlock(t *testing.T, begins string) (v map[string]any) {
	t.Helper()
	_, rest, found := strings.Cut(envoyFile(t, "README.md"), "```yaml\n"+begins)
	if !found {
		t.Fatalf("envoy/README.md has no block that begins with %q", begins)
	}
	block, _, _ := strings.Cut(rest, "```")
	if err := yaml.Unmarshal([]byte(begins+block), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// authority is what ext_authz asks: it says no to tokens and sessions that were revoked.
type authority struct {
	mu    sync.Mutex
	no    map[string]int // by token or session, the status
	asked int
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	for _, h := range []string{"Authorization", "Mcp-Session-Id"} {
		if status := a.no[r.Header.Get(h)]; status != 0 {
			w.WriteHeader(status)
			return
		}
	}
}

func (a *authority) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

func (a *authority) revoke(what string, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.no[what] = status
}

// A stored answer is not given to who lost the right to it: a grant that was removed, a policy
// that has changed, a token or a session that was revoked. The key is not lost with that: who
// has the right again gets the answer, and nothing runs twice. The recipe is the README's.
func TestRightsAreAskedForReplays(t *testing.T) {
	const config = `{"namespace":"rights","policies":{
		"payments":{"server":"payments",` + claims + `,"strip":true},
		"gateway":{"server":"payments","preset":"gateway",` + claims + `}},"default":"payments"}`
	rules, filter := yamlBlock(t, "action: ALLOW"), yamlBlock(t, "name: envoy.filters.http.ext_authz")
	rights := &authority{no: map[string]int{}}
	asks := httptest.NewServer(rights)
	t.Cleanup(asks.Close)
	server := startPayments(t, payments.Options{Stateless: true})
	granted := "ada"
	v := startVerifier(t, envoytest.Options{Plugin: must(t, buildPlugin), Config: config, Upstream: server.URL(), Changes: true}, func(e *envoytest.Tree) {
		e.Set(rules, rbac.To("rules")...)
		e.Set(granted, rbac.To("rules", "policies", "granted", "principals", 0, "sourced_metadata", "metadata_matcher", "value", "string_match", "exact")...)
		filters, _ := e.At(envoytest.Filters...).([]any)
		e.Set(append(append(append([]any{}, filters[:2]...), filter), filters[2:]...), envoytest.Filters...)
		e.Insert([]any{e.Cluster("authorization", asks.URL)}, envoytest.Clusters...)
		addRoute(e, conformance.Route{When: "gateway", Policy: "gateway"})
	})
	token := v.realm.Token(callers.First, "ada", nil)
	renewed := v.realm.Token(callers.First, "ada", map[string]any{"jti": "2"})
	call := func(policy, token string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", v.URL()+"/mcp", strings.NewReader(chargeBody))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Idempotency-Key": {"order-1"},
			"Mcp-Session-Id": {"session-1"}, "X-Route": {policy}}
		req.GetBody = nil
		resp, err := v.transport(t, callers.Client{Token: token}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		switch {
		case err != nil:
			t.Fatal(err)
		case resp.StatusCode == 401 || resp.StatusCode == 403:
			if strings.Contains(string(text), "ch_") {
				t.Errorf("%s: a refusal that shows the charge: %s", policy, text)
			}
			return "refused"
		case resp.Header.Get("Idempotency-Replayed") == "true" && strings.Contains(string(text), "ch_"):
			return "replay"
		case resp.StatusCode == 200 && strings.Contains(string(text), "ch_"):
			return "first"
		}
		t.Fatalf("%s: %d %s", policy, resp.StatusCode, text)
		return ""
	}
	both := func(what, token, want string) {
		t.Helper()
		for _, policy := range []string{"payments", "gateway"} {
			if got := call(policy, token); got != want {
				t.Errorf("%s, policy %s: got %s, want %s", what, policy, got, want)
			}
		}
	}
	both("a call", token, "first")
	both("its repeat", token, "replay")

	granted = "bob"
	v.Change(t, config, false)
	both("the grant was removed", token, "refused")
	granted = "ada"
	v.Change(t, config, false)
	both("and given again", token, "replay")

	rights.revoke("Bearer "+token, 401)
	both("the token was revoked", token, "refused")
	both("another token of the same caller", renewed, "replay")
	rights.revoke("Bearer "+token, 0)
	rights.revoke("session-1", 403)
	both("the session was revoked", token, "refused")
	rights.revoke("session-1", 0)
	both("all is in force", token, "replay")

	before := rights.count()
	both("and each call is asked for", token, "replay")
	if n := rights.count() - before; n != 2 {
		t.Errorf("two replays were asked for %d times", n)
	}
	asks.Close()
	both("nobody can be asked", token, "refused")
	if n := server.Book.Count(); n != 2 {
		t.Errorf("%d charges, want one under each policy", n)
	}
}

// claims are a verified identity, as a member of a policy.
const claims = `"principal":[["metadata:envoy.filters.http.jwt_authn/payload/iss","metadata:envoy.filters.http.jwt_authn/payload/sub"]]`
