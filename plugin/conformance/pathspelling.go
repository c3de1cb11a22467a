package conformance

import (
	"slices"
	"strings"
	"testing"
)

// spellingsOfAPath sends one key to paths that are spelled in many ways. A proxy that
// normalises paths by itself may merge more of them; none may merge fewer.
func spellingsOfAPath(t *testing.T, f Front) {
	same := []string{"/t/a/mcp", "/t/a/mcp/", "//t/a//mcp", "/t/./a/mcp", "/t/b/../a/mcp", "/t/%61/mcp"}
	apart := []string{"/t/b/mcp", "/t/A/mcp", "/t/a%2Fmcp"}
	policies := map[string]struct {
		member string
		runs   int
	}{
		"normalized": {``, 1 + len(apart)},
		"exact":      {`,"path":"exact"`, len(same) + len(apart)},
		"ignore":     {`,"path":"ignore"`, 1},
	}
	config := `"default":"normalized"`
	for name, policy := range policies {
		config = `"` + name + `":{"server":"` + name + `","anonymous":true` + policy.member + `},` + config
	}
	config = `{"namespace":"cases","policies":{` + strings.Replace(config, `,"default"`, `},"routes":{"exact":"exact","ignore":"ignore"},"default"`, 1) + `}`
	u := newUpstream(t, asJSON)
	p := f.Start(t, Setup{Config: config, Upstream: u.URL, Routes: []Route{{When: "exact"}, {When: "ignore"}}})
	c := newClient(t, p)
	for name, policy := range policies {
		before := u.Runs()
		for range 2 {
			for _, path := range slices.Concat(same, apart) {
				at := &client{t, p.URL() + path, c.http}
				if r := at.call("1", "charge", `{}`, "k", "X-Route", name); r.Err != nil || r.Status != 200 || r.isRefusal() != "" {
					t.Fatalf("%s, %s: found %d %v %s", name, path, r.Status, r.Err, r.Body)
				}
			}
		}
		if n := u.Runs() - before; n != policy.runs {
			t.Errorf("%s: one key at all paths ran %d times, expected %d", name, n, policy.runs)
		}
	}
}
