package policy

import (
	"strings"
	"testing"
)

// A binding that cannot do all says of each member that asks for it where it stands, and of no other; one that can do all says nothing.
func TestBeyond(t *testing.T) {
	const head = `{"policies":{"a/b":{"server":"s","anonymous":true`
	for _, c := range []struct{ config, want string }{
		{head + `}},"default":"a/b"}`, ""},
		{head + `}},"store":{"kind":"shared_data"}}`, ""},
		{head + `}},"store":{"kind":"etcd","cluster":"c"}}`, "/store/kind"},
		{head + `,"on_disconnect":"stop","on_in_flight":"wait"}}}`, ""},
		{head + `,"on_disconnect":"continue"}}}`, "/policies/a~1b/on_disconnect"},
		{head + `,"on_disconnect":"continue","tools":[{"match":"x","on_disconnect":"stop"},{"match":"*","guard":"off"}]}}}`, "/policies/a~1b/on_disconnect"},
		{head + `,"tools":[{"match":"x","on_disconnect":"continue"},{"match":"y","detach":true},{"match":"z","guard":"off"}]}}}`, "/policies/a~1b/tools/0/on_disconnect /policies/a~1b/tools/1/detach"},
		{head + `,"tools":[{"match":"x","on_disconnect":"continue","detach":false}]}}}`, ""},
		{head + `,"detach_timeout":"5m"}}}`, ""},
	} {
		parsed, mistakes := Parse([]byte(c.config))
		if len(mistakes) > 0 {
			t.Fatal(c.config, mistakes)
		}
		var at []string
		for _, m := range parsed.Beyond(Lacks{Binding: "of a test", GRPC: true, Callouts: true}) {
			at = append(at, m.Pointer)
			if !strings.Contains(m.Expected, ": the filter of a test ") {
				t.Errorf("%s: %v", c.config, m)
			}
		}
		if got := strings.Join(at, " "); got != c.want {
			t.Errorf("%s:\nrefused at %q, expected %q", c.config, got, c.want)
		}
		if all := parsed.Beyond(Lacks{}); len(all) > 0 {
			t.Errorf("a binding that can do all refuses %v", all)
		}
	}
}
