package e2e_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
)

// The filter twice in one chain, as a mesh-wide and a local list give it: each intent runs
// once, and its repeat gets the answer.
func TestTwiceInOneChain(t *testing.T) {
	policy := func(namespace, members string) string {
		return `{"namespace":"` + namespace + `","policies":{"p":{"server":"s","anonymous":true` + members + `}},"default":"p"}`
	}
	const argument = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"customer":"alice","amount_cents":1200,"idempotency_key":"KEY"}}}`
	for _, c := range []struct {
		name, ahead, behind string
		vm                  string // vm_id of the one ahead, "" = the same
		noHold              bool
		body                string
		passed              int64 // by the one behind: of two intents, each sent twice
	}{
		{"the same", policy("n", ""), policy("n", ""), "", false, chargeBody, 2},
		{"another configuration", policy("n", ""), policy("n", `,"bind_request_id":true`), "", false, chargeBody, 2},
		{"another namespace", policy("n", ""), policy("m", ""), "", false, chargeBody, 0},
		{"another vm_id", policy("n", ""), policy("n", ""), "mesh", false, chargeBody, 0},
		{"the key cut out", policy("n", `,"strip":true,"tools":[{"match":"*","guard":"required"}]`), policy("n", `,"strip":true,"tools":[{"match":"*","guard":"required"}]`), "", false, argument, 2},
		{"headers not held", policy("n", ""), policy("n", ""), "", true, chargeBody, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := startPayments(t, payments.Options{Stateless: true})
			e := startEnvoy(t, envoytest.Options{
				Plugin: must(t, buildPlugin), Upstream: server.URL(), Config: c.behind, NoHoldHeaders: c.noHold,
				Edit: func(tree *envoytest.Tree) {
					mesh := clone(tree.Object(envoytest.Filters.To(envoytest.Named("callonce"))...))
					mesh["name"] = "callonce-mesh"
					config := mesh["typed_config"].(map[string]any)["config"].(map[string]any)
					config["name"] = "callonce-mesh"
					config["configuration"].(map[string]any)["value"] = c.ahead
					if c.vm != "" {
						config["vm_config"].(map[string]any)["vm_id"] = c.vm
					}
					tree.Insert([]any{mesh}, envoytest.Filters...)
				},
			})
			for i, key := range []string{"k1", "k2"} {
				for _, replayed := range []string{"", "true"} {
					var headers []string
					if c.body == chargeBody {
						headers = []string{"Idempotency-Key", key}
					}
					resp, body := send(t, "POST", e.URL(), strings.Replace(c.body, "KEY", key, 1), headers...)
					if resp.StatusCode != 200 || resp.Header.Get("Idempotency-Replayed") != replayed || server.Book.Count() != i+1 {
						t.Fatalf("%s, replayed %q: got %d, %q after %d charges: %s", key, replayed, resp.StatusCode, resp.Header.Get("Idempotency-Replayed"), server.Book.Count(), body)
					}
				}
			}
			if n, err := e.Counter("callonce_claimed_ahead_total", nil); c.passed > 0 && err != nil || n != c.passed {
				t.Errorf("want %d calls let pass, got %d, %v", c.passed, n, err)
			}
			if n := strings.Count(e.Logs(), "twice in one chain"); n != int(min(c.passed, 1)) {
				t.Errorf("want the log to say it once where it is so, got it %d times", n)
			}
		})
	}
}

// clone copies a tree of objects; lists are shared.
func clone(m map[string]any) map[string]any {
	m = maps.Clone(m)
	for k, v := range m {
		if o, ok := v.(map[string]any); ok {
			m[k] = clone(o)
		}
	}
	return m
}
