package policy_test

import (
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/policy"
)

func name(p *policy.Policy) string {
	if p == nil {
		return "off"
	}
	return p.Name
}

const routed = `{
	"policies": {"a": {"anonymous": true}, "b": {"anonymous": true}, "c": {"anonymous": true}, "d": {"anonymous": true}},
	"routes": {%s},
	"default": "d"
}`

func TestRoutes(t *testing.T) {
	for _, c := range []struct{ routes, route, want string }{
		// Exact first, then the glob with the longest literal prefix, then the default.
		{`"mcp-pay":"a","mcp-*":"b","*":"c"`, "mcp-pay", "a"},
		{`"mcp-pay":"a","mcp-*":"b","*":"c"`, "mcp-payments", "b"},
		{`"mcp-pay":"a","mcp-*":"b","*":"c"`, "mcp-", "b"},
		{`"mcp-pay":"a","mcp-*":"b","*":"c"`, "mcp", "c"},
		{`"mcp-pay":"a","mcp-*":"b"`, "mcp", "d"},
		{`"mcp-pay":"a","mcp-*":"b"`, "MCP-pay", "d"},
		{`"mcp-pay":"a"`, "mcp-pay ", "d"},
		{`"mcp-*":"a","mcp-p*":"b","mcp-pa*":"c"`, "mcp-pay", "c"},
		{`"mcp-pa*":"c","mcp-p*":"b","mcp-*":"a"`, "mcp-po", "b"},
		{`"*-pay":"a","m*":"b"`, "mcp-pay", "b"},
		{`"m*x":"a","m*":"b"`, "mcp-pay", "b"},
		{`"*pay-more*":"a","*":"b"`, "pay-more", "a"},
		// An exact name wins although a glob with the same text exists nowhere else.
		{`"mcp-pay":"off","mcp-*":"b"`, "mcp-pay", "off"},
		{`"mcp-*":"off"`, "mcp-pay", "off"},
		{`"mcp-*":"off","mcp-pay":"a"`, "mcp-pay", "a"},
		{`"mcp-*":"a"`, "", "d"},
		{``, "mcp-pay", "d"},
	} {
		config := parse(t, strings.Replace(routed, "%s", c.routes, 1))
		p, known := config.Route("", c.route)
		if name(p) != c.want || !known {
			t.Errorf("{%s}: %q goes to %s (known %v), want %s", c.routes, c.route, name(p), known, c.want)
		}
		if config.ReadsRoutes() != (c.routes != "") {
			t.Errorf("{%s}: ReadsRoutes %v", c.routes, config.ReadsRoutes())
		}
	}
}

// Globs with equally long literal prefixes are tried in an order that does not hang on
// that of the members, which a mesh may lose.
func TestRoutesOfEqualPrefix(t *testing.T) {
	for _, routes := range []string{
		`"m*y":"a","m*ay":"b","m*":"c"`,
		`"m*":"c","m*ay":"b","m*y":"a"`,
		`"m*ay":"b","m*":"c","m*y":"a"`,
	} {
		config := parse(t, strings.Replace(routed, "%s", routes, 1))
		for route, want := range map[string]string{"mcp-pay": "b", "mcp-boy": "a", "mcp": "c"} {
			if p, _ := config.Route("", route); name(p) != want {
				t.Errorf("{%s}: %q goes to %s, want %s", routes, route, name(p), want)
			}
		}
	}
	for _, routes := range []string{`"m*x*":"a","m*y*":"b","*":"c"`, `"m*y*":"b","*":"c","m*x*":"a"`} {
		config := parse(t, strings.Replace(routed, "%s", routes, 1))
		for route, want := range map[string]string{"m-x-y": "a", "m-y-x": "a", "m-y": "b", "x": "c"} {
			if p, _ := config.Route("", route); name(p) != want {
				t.Errorf("{%s}: %q goes to %s, want %s", routes, route, name(p), want)
			}
		}
	}
	for _, routes := range []string{`"m*x":"a","m*y":"b","m*x*":"c"`, `"m*x*":"c","m*y":"b","m*x":"a"`} {
		config := parse(t, strings.Replace(routed, "%s", routes, 1))
		for route, want := range map[string]string{"m-x": "c", "m-xy": "c", "m-y": "b"} {
			if p, _ := config.Route("", route); name(p) != want {
				t.Errorf("{%s}: %q goes to %s, want %s", routes, route, name(p), want)
			}
		}
	}
}

// Route metadata wins over the route's name, and one that names no policy must not
// switch the guard off.
func TestRouteMetadata(t *testing.T) {
	config := parse(t, strings.Replace(routed, "%s", `"r":"a"`, 1))
	for _, c := range []struct {
		metadata, route, want string
		known                 bool
	}{
		{"", "r", "a", true},
		{"b", "r", "b", true},
		{"b", "", "b", true},
		{"off", "r", "off", true},
		{"x", "r", "off", false},
		{"B", "r", "off", false},
		{"x", "", "off", false},
		{"", "", "d", true},
	} {
		p, known := config.Route(c.metadata, c.route)
		if name(p) != c.want || known != c.known {
			t.Errorf("metadata %q, route %q: %s, known %v", c.metadata, c.route, name(p), known)
		}
	}
}

// The first entry that fits decides.
func TestToolEntry(t *testing.T) {
	p := one(t, policyWith(`"tools":[{"match":"get_*","guard":"off"},{"match":"get_secret","guard":"required"},{"match":"charge","guard":"required"},{"match":"*_all","guard":"derived"},{"match":"charge","guard":"off"}]`))
	for tool, want := range map[string]string{
		"get_x":      "get_*",
		"get_secret": "get_*",
		"get_all":    "get_*",
		"charge":     "charge",
		"charge_all": "*_all",
		"Charge":     "*",
		"":           "*",
		"x":          "*",
	} {
		if got := p.Tool(tool); got.Match != want || tool == "charge" && got.Guard != policy.GuardRequired {
			t.Errorf("%q falls under %s (%d), want %s", tool, got.Match, got.Guard, want)
		}
	}
	for guard, must := range map[policy.Guard]bool{policy.GuardOff: false, policy.GuardOptional: false, policy.GuardRequired: true, policy.GuardDerived: true} {
		if guard.Must() != must {
			t.Errorf("guard %d: Must %v", guard, !must)
		}
	}
}

// Policies stand in the order of their names, so that the index of a policy does not
// hang on the order of members.
func TestPolicyIndex(t *testing.T) {
	for _, order := range []string{"b é a B", "a B b é", "é b B a"} {
		var members []string
		for _, n := range strings.Fields(order) {
			members = append(members, `"`+n+`":{"anonymous":true}`)
		}
		c := parse(t, `{"policies":{`+strings.Join(members, ",")+`}}`)
		for i, want := range []string{"B", "a", "b", "é"} {
			if p := c.Policies[i]; p.Name != want || p.Index != i {
				t.Errorf("%s: policy %d is %s with index %d", order, i, p.Name, p.Index)
			}
		}
	}
}
