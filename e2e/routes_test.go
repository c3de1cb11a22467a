package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/plugin/conformance"
)

// A request's policy: what the route's metadata says, else its name, exact before the
// longest glob, else the default.
func TestRoutes(t *testing.T) {
	const config = `{"namespace":"r","policies":{
		"exact":{"server":"exact","anonymous":true},"glob":{"server":"glob","anonymous":true},"longer":{"server":"longer","anonymous":true},
		"told":{"server":"told","anonymous":true},"def":{"anonymous":true}},
		"routes":{"team-*":"glob","team-a-*":"longer","team-a-1":"exact","none-*":"off"},"default":"def"}`
	server := startRecorder(t)
	e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Config: config, Upstream: server.URL, Edit: func(e *envoytest.Tree) {
		for _, r := range []conformance.Route{
			{When: "team-a-1"}, {When: "team-a-2"}, {When: "team-b"}, {When: "other"}, {When: "none-1"},
			{When: "team-a-3", Policy: "told"}, {When: "team-a-4", Policy: "off"}, {When: "team-a-5", Policy: "tolt"},
		} {
			addRoute(e, r)
		}
		addRoute(e, conformance.Route{When: "team-a-6"})
		e.Object(envoytest.Host.To("routes", 0)...)["metadata"] = map[string]any{"filter_metadata": map[string]any{"callonce": map[string]any{"policy": ""}}}
	}})
	call := func(route, key string) string {
		t.Helper()
		resp, body := send(t, "POST", e.URL(), toolCall("1", "charge", `{}`), "X-Route", route, "Idempotency-Key", key)
		return outcome(resp, body)
	}
	for route, policy := range map[string]string{
		"team-a-1": "exact", "team-a-2": "longer", "team-b": "glob", "team-a-3": "told",
		"other": "mcp/def", "": "mcp/def", // no server named: the virtual host and the policy
	} {
		for _, want := range []string{"first", "replay"} {
			if got := call(route, "k-"+route); got != want {
				t.Errorf("route %q: want %s, got %s", route, want, got)
			}
			labels := map[string]string{"namespace": "r", "server": policy, "outcome": want}
			if n, err := e.Counter("mcp_gateway_idempotency_total", labels); err != nil || n == 0 {
				t.Errorf("route %q: want it counted for %s, got %d, %v", route, policy, n, err)
			}
		}
	}
	for _, route := range []string{"none-1", "team-a-4"} {
		if a, b := call(route, "k"), call(route, "k"); a != "first" || b != "first" {
			t.Errorf("route %q is off: want two first answers, got %s, %s", route, a, b)
		}
	}
	runs := server.Runs("charge")
	if got := call("team-a-5", "k"); got != "idempotency_unavailable" {
		t.Errorf("metadata that names no policy: want idempotency_unavailable, got %s", got)
	}
	if resp, body := send(t, "POST", e.URL(), toolCall("1", "charge", `{}`), "X-Route", "team-a-5"); outcome(resp, body) != "idempotency_unavailable" || resp.StatusCode != 503 {
		t.Errorf("the same without a key: want idempotency_unavailable, got %d %s", resp.StatusCode, body)
	}
	if got := call("team-a-6", "k"); got != "idempotency_unavailable" {
		t.Errorf("metadata that is empty: want idempotency_unavailable, got %s", got)
	}
	if n := server.Runs("charge"); n != runs {
		t.Errorf("a misnamed policy let %d calls through", n-runs)
	}
	if resp, body := send(t, "POST", e.URL(), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "X-Route", "team-a-5"); resp.StatusCode != 200 {
		t.Errorf("metadata that names no policy, no call: want it passed on, got %d %s", resp.StatusCode, body)
	}
	if n, err := e.Counter("mcp_gateway_idempotency_total", map[string]string{"server": "(unknown)", "outcome": "unavailable"}); err != nil || n != 3 {
		t.Errorf("want 3 refusals counted, got %d, %v", n, err)
	}
	for _, found := range []string{`found "tolt", expected "off" or the name of a policy`, "found an empty name, expected"} {
		// Envoy may answer before it writes its log.
		for n := 0; !strings.Contains(e.Logs(), found); n++ {
			if n == 500 {
				t.Fatalf("want the log to say: %s", found)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}
