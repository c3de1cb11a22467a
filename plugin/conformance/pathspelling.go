package conformance

import (
	"slices"
	"strings"
	"testing"
)

// spellingsOfAPath sends one key to paths that are spelled in many ways. Where the filter
// takes them as they come, a proxy that normalises paths may have merged them ahead of it,
// but for a slash at the end.
func spellingsOfAPath(t *testing.T, f Front) {
	same := []string{"/mcp", "/mcp/", "//mcp", "/./mcp", "/x/../mcp", "/%6dcp"}
	apart := []string{"/mcp/b", "/mcp/B"}
	policies := map[string]struct {
		member      string
		least, most int // how often one key runs
	}{
		"normalized": {``, 1 + len(apart), 1 + len(apart)},
		"exact":      {`,"path":"exact"`, 2 + len(apart), len(same) + len(apart)},
		"ignore":     {`,"path":"ignore"`, 1, 1},
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
				at := &client{t, p.URL() + path, c.http, c.eventual}
				if r := at.call("1", "charge", `{}`, "k", "X-Route", name); r.Err != nil || r.Status != 200 || r.isRefusal() != "" {
					t.Fatalf("%s, %s: found %d %v %s", name, path, r.Status, r.Err, r.Body)
				}
			}
		}
		if n := u.Runs() - before; n < policy.least || n > policy.most {
			t.Errorf("%s: one key at all paths ran %d times, expected %d to %d", name, n, policy.least, policy.most)
		}
	}
}
