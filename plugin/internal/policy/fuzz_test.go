package policy_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// Finds are kept under testdata/fuzz as numbered cases; every run of the tests goes
// through them.

func FuzzParse(f *testing.F) {
	f.Add([]byte(every), "mcp-x")
	for _, c := range wrong {
		f.Add([]byte(c.src), "r")
	}
	for _, preset := range []string{"gateway", "sep3182", "derived", "forward"} {
		f.Add([]byte(policyWith(`"preset":"`+preset+`","tools":[{"match":"a*","round":{"/at":60}}],"limits":{"entries":9},"ttl":"3s"`)), "mcp-x")
	}
	f.Fuzz(func(t *testing.T, src []byte, route string) {
		config, mistakes := policy.Parse(src)
		if (config == nil) != (len(mistakes) > 0) {
			t.Fatalf("%q: configuration %v, mistakes %v", src, config, mistakes)
		}
		form, err := canonical.Append(nil, src)
		if err != nil {
			if config != nil && len(strings.Trim(string(src), " \r\n\t")) > 0 {
				t.Fatalf("%q accepted: %v", src, err)
			}
			return
		}
		checkMistakes(t, src, mistakes)
		// The canonical form has other members first and other spellings of numbers.
		again, againMistakes := policy.Parse(form)
		if !slices.Equal(pointers(againMistakes), pointers(mistakes)) || !reflect.DeepEqual(again, config) {
			t.Fatalf("%q and %q:\n%v\n%v", src, form, mistakes, againMistakes)
		}
		if config != nil {
			checkConfig(t, src, config, route)
		}
	})
}

func pointers(mistakes policy.Mistakes) []string {
	var out []string
	for _, m := range mistakes {
		out = append(out, m.Pointer)
	}
	slices.Sort(out)
	return out
}

// checkMistakes wants every mistake told on one line, at a place that is in the text,
// or at a member that is missing in an object that is.
func checkMistakes(t *testing.T, src []byte, mistakes policy.Mistakes) {
	var doc canonical.Doc
	if err := doc.Parse(src); err != nil {
		t.Fatal(err)
	}
	for _, m := range mistakes {
		parent := m.Pointer[:max(strings.LastIndexByte(m.Pointer, '/'), 0)]
		if m.Found == "" || m.Expected == "" || doc.Pointer(doc.Root(), parent) == canonical.NoNode {
			t.Fatalf("%q: %+v", src, m)
		}
		// A mistake about something that was found is about something that is there.
		absent := m.Found == "nothing" || strings.HasPrefix(m.Found, "true, with") || strings.HasPrefix(m.Expected, "at least lease")
		if !absent && doc.Pointer(doc.Root(), m.Pointer) == canonical.NoNode {
			t.Fatalf("%q: nothing at %+v", src, m)
		}
		if strings.ContainsAny(m.Error(), "\n\r\x00\x1b") {
			t.Fatalf("%q: %q", src, m.Error())
		}
	}
}

// checkConfig wants what docs/configuration.md says of every configuration that has no mistake.
func checkConfig(t *testing.T, src []byte, config *policy.Config, route string) {
	for i, p := range config.Policies {
		l := p.Limits
		nested := []int{l.Entries, l.EntriesPerPrincipal, l.EntriesPerScope, l.TombstonesPerScope, 1}
		running := []int{l.Entries, l.InFlight, l.InFlightPerPrincipal, l.InFlightPerScope, 1}
		bytes := []int{l.StoredBytes, l.ReplyBytes, 1}
		for _, levels := range [][]int{nested, running, bytes} {
			if !slices.IsSortedFunc(levels, func(a, b int) int { return b - a }) {
				t.Fatalf("%q: limits %+v", src, l)
			}
		}
		if p.Index != i || p.Name == "" || p.Name == "off" || len(p.Keys) == 0 || len(p.Principal) == 0 && !p.Anonymous || p.TTL < p.Lease || p.Lease <= 0 {
			t.Fatalf("%q: %+v", src, p)
		}
		for _, tool := range append(p.Tools, p.Unlisted) {
			if tool.Match == "" || tool.TTL < p.Lease || tool.Window <= 0 || tool.Guard.Must() && !p.MustGuard {
				t.Fatalf("%q: %+v", src, tool)
			}
		}
		if tool := p.Tool(route); !policy.Match(tool.Match, route) {
			t.Fatalf("%q: %q fell under %+v", src, route, tool)
		}
		if got, known := config.Route(p.Name, route); got != p || !known {
			t.Fatalf("%q: metadata %q gave %v, %v", src, p.Name, got, known)
		}
	}
	for _, w := range config.Warnings() {
		if at, _, _ := strings.Cut(w, " "); strings.ContainsAny(w, "\n\r\x00\x1b") || at == "" {
			t.Fatalf("%q: warning %q", src, w)
		}
	}
	var tree struct{ Routes map[string]string }
	if json.Unmarshal(src, &tree) != nil {
		return
	}
	if _, known := config.Route("", route); !known {
		t.Fatalf("%q: no policy for route %q", src, route)
	}
	for pattern, want := range tree.Routes {
		if got, _ := config.Route("", pattern); !strings.Contains(pattern, "*") && name(got) != want {
			t.Fatalf("%q: route %q goes to %s", src, pattern, name(got))
		}
	}
}
