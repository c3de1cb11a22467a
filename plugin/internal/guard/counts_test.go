package guard

import (
	"regexp"
	"strings"
	"testing"
)

// Labels come apart again as they were put together, whatever stands in them: the proxy's
// stats_tags take them out one after the other, each where its expression first fits.
func TestLabelsComeApart(t *testing.T) {
	// As in envoy/envoy.yaml.
	tags := map[string]*regexp.Regexp{}
	for _, name := range []string{"namespace", "server", "outcome", "tool"} {
		tags[name] = regexp.MustCompile(`(` + name + `=\.=(.*?);\.;)`)
	}
	seen := map[string][2]string{}
	odd := []string{"s1.x", "a;.;b", "a_b", "a%3B.%3Bb", ";", ";.", "a;.", ".;", "outcome=.=x", "outcome=.=x;.;", "=.=", "%", "ä", "a/b", ""}
	for _, server := range odd {
		for _, tool := range odd {
			c := counts{namespace: "n"}
			full := c.fullName(keyOf("s"+server, toolCalls, []string{"t" + tool, "first"}))
			if was, taken := seen[full]; taken {
				t.Fatalf("%q and %q are one metric: %s", was, [2]string{server, tool}, full)
			}
			seen[full] = [2]string{server, tool}
			rest, found := full, map[string]string{}
			for _, name := range []string{"outcome", "tool", "server", "namespace"} {
				if m := tags[name].FindStringSubmatchIndex(rest); m != nil {
					found[name] = rest[m[4]:m[5]]
					rest = rest[:m[2]] + rest[m[3]:]
				}
			}
			if rest != toolCalls.name || found["outcome"] != "first" || found["namespace"] != "n" ||
				found["server"] != labelEscapes.Replace("s"+server) || found["tool"] != labelEscapes.Replace("t"+tool) {
				t.Errorf("%q, %q: came apart as %q and %v", server, tool, rest, found)
			}
		}
	}
}

// The build is a gauge, with the namespace as all have it.
func TestBuildIsTold(t *testing.T) {
	w := newWorld(t)
	w.worker(plain).TellBuild("v1.2.3", "0123456789ab")
	if n := w.gauges["namespace=.=ns;.;version=.=v1.2.3;.;revision=.=0123456789ab;.;callonce_build_info"]; n != 1 {
		t.Errorf("%v", w.gauges)
	}
	for name := range w.gauges {
		if !strings.HasPrefix(name, "namespace=.=ns;.;") {
			t.Errorf("%s has no namespace", name)
		}
	}
}

// A decision is counted at once. What is counted beside it is told at the next tick, or when the configuration ends, and once.
func TestCountersToldAtTheTick(t *testing.T) {
	for name, tell := range map[string]func(*world, *Guard){
		"tick":  func(w *world, g *Guard) { g.Tick(w.now) },
		"close": func(_ *world, g *Guard) { g.Close() },
		"a tick that meets a fault": func(w *world, g *Guard) {
			g.store = nil
			g.Tick(w.now)
		},
	} {
		w := newWorld(t)
		g := w.worker(must)
		for range 3 {
			if x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k"); x.sent {
				x.answer(200, "application/json", okResult)
			}
		}
		w.send(g, toolCall("1", `{}`)).wantRefused(400, "idempotency_key_required")
		told := func(name string) (n uint64) {
			for full, v := range w.counts {
				if strings.HasSuffix(full, name) {
					n += v
				}
			}
			return n
		}
		late := map[string]uint64{
			"callonce_tool_calls_total": 4, "callonce_settled_total": 1, "callonce_duplicates_total": 2, "callonce_refusals_total": 1, "callonce_mesh_retries_off_total": 1,
		}
		for metric := range late {
			if told(metric) != 0 {
				t.Errorf("%s: told at once", metric)
			}
		}
		if told("mcp_gateway_idempotency_total") != 4 {
			t.Errorf("decisions: %v", w.counts)
		}
		for range 2 {
			tell(w, g)
			for metric, want := range late {
				if got := told(metric); got != want {
					t.Errorf("%s, %s: expected %d, told %d", name, metric, want, got)
				}
			}
		}
		g.counts.add("srv", refusals, "idempotency_key_required")
		if tell(w, g); told("callonce_refusals_total") != 2 {
			t.Errorf("%s: one more refusal: %v", name, w.counts)
		}
	}
}
