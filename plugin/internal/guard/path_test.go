package guard

import (
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/policy"
)

func TestNormalizedPath(t *testing.T) {
	for path, want := range map[string]string{
		"/mcp": "/mcp", "/mcp/": "/mcp", "//mcp": "/mcp", "/mcp//": "/mcp", "///": "/", "/": "/", "": "", "*": "*", "mcp/": "mcp/",
		"/./mcp": "/mcp", "/mcp/.": "/mcp", "/a/../mcp": "/mcp", "/../mcp": "/mcp", "/a/b/..": "/a", "/..": "/", "/.": "/",
		"/a//../mcp": "/a/mcp", "/a/%2e%2E/mcp": "/mcp", "/%6dcp": "/mcp", "/%6Dcp": "/mcp", `/a\mcp`: "/a/mcp", `/a\..\mcp`: "/mcp",
		"/.well-known/x": "/.well-known/x", "/...": "/...", "/..a/b": "/..a/b", "/a.": "/a.", "/~a": "/~a", "/%7ea": "/~a",
		// What stays apart.
		"/MCP": "/MCP", "/a%2Fb": "/a%2Fb", "/a%2fb": "/a%2fb", "/a%5cb": "/a%5cb", "/a%20b": "/a%20b", "/%252e": "/%252e", "/%41": "/A",
		"/a;v=1": "/a;v=1", "/%": "/%", "/%4": "/%4", "/%zz": "/%zz", "/a%00": "/a%00", "/%2": "/%2",
	} {
		if got := normalized(path); got != want {
			t.Errorf("%q: expected %q, found %q", path, want, got)
		}
		if again := normalized(normalized(path)); again != want && !strings.Contains(path, "%") {
			t.Errorf("%q: %q a second time", path, again)
		}
		if isNormal(path) && path != want && strings.HasPrefix(path, "/") {
			t.Errorf("%q counts as normal", path)
		}
	}
	if n := testing.AllocsPerRun(10, func() { pathOf("/tenants/ada/mcp", policy.PathNormalized) }); n != 0 {
		t.Errorf("a usual path costs %v allocations", n)
	}
}

// One key at several spellings of a path is one call, as the policy says; tenants in paths
// stay apart unless it says that paths do not count.
func TestPath(t *testing.T) {
	same := []string{"/t/a/mcp", "/t/a/mcp/", "//t/a//mcp", "/t/./a/mcp?q=1", "/t/b/../a/mcp", "/t/%61/mcp"}
	other := []string{"/t/b/mcp", "/t/A/mcp", "/t/a%2Fmcp"}
	for members, want := range map[string]struct{ same, other bool }{
		``:                     {true, false},
		`,"path":"normalized"`: {true, false},
		`,"path":"exact"`:      {false, false},
		`,"path":"ignore"`:     {true, true},
	} {
		w := newWorld(t)
		g := w.worker(anyone(members))
		ask := func(path string) *exchange {
			return w.send(g, toolCall("1", `{}`), "idempotency-key", "k", ":path", path)
		}
		first := ask(same[0])
		first.answer(200, "application/json", okResult)
		if got := first.header(":path"); len(got) != 1 || got[0] != same[0] {
			t.Errorf("%s: the path that went on was changed: %v", members, first.request)
		}
		for _, path := range same[1:] {
			if got := !ask(path).sent; got != want.same {
				t.Errorf("%s: %s is one call with %s: %v, expected %v", members, path, same[0], got, want.same)
			}
		}
		for _, path := range other {
			if got := !ask(path).sent; got != want.other {
				t.Errorf("%s: %s is one call with %s: %v, expected %v", members, path, same[0], got, want.other)
			}
		}
	}
}
