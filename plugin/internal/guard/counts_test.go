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
