package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/policy"
)

// warnings are those of a configuration that has no mistake.
func warnings(t *testing.T, config string) []string {
	t.Helper()
	c, mistakes := policy.Parse([]byte(config))
	if len(mistakes) > 0 {
		t.Fatalf("%s: %v", config, mistakes)
	}
	return c.Warnings()
}

func TestNothingIsGuarded(t *testing.T) {
	const p = `"policies":{"p":{"principal":["header:x-user"],"strip":true}}`
	for config, want := range map[string]bool{
		"":                                 true,
		`{` + p + `}`:                      true,
		`{` + p + `,"routes":{"a":"off"}}`: true,
		`{` + p + `,"routes":{"a":"p"}}`:   false,
		`{` + p + `,"routes":{"a*":"p"}}`:  false,
		`{` + p + `,"default":"p"}`:        false,
	} {
		got := warnings(t, config)
		if want != (len(got) == 1 && strings.Contains(got[0], "nothing is guarded")) || !want && len(got) > 0 {
			t.Errorf("%s: found %q", config, got)
		}
	}
}

// A warning stays on one line of a log, whatever a policy is called.
func TestWarningsAreLines(t *testing.T) {
	for _, w := range warnings(t, `{"policies":{"a\nb":{"anonymous":true,"tools":[{"match":"*","guard":"derived"},{"match":"*"}]}},"default":"a\nb"}`) {
		if !strings.HasPrefix(w, `"/policies/a\nb/`) || strings.Contains(w, "\n") {
			t.Errorf("found %q", w)
		}
	}
}

// What a policy gets warnings for: each begins with its place, and no other is there.
func TestPolicyWarnings(t *testing.T) {
	const known = `"principal":["header:x-user"],"strip":true,`
	for _, c := range []struct {
		policy string
		want   []string // place and how the warning goes on
	}{
		{known + `"tools":[{"match":"*"},{"match":"charge","guard":"required"}]`, []string{"/tools/1 is never used: the first entry that fits decides, and /policies/p/tools/0 fits all"}},
		{known + `"wait":"3s","detach_timeout":"1m","detach_cluster":"c"`, []string{"/wait has no effect", "/detach_timeout has no effect", "/detach_cluster has no effect"}},
		{known + `"on_disconnect":"continue","tools":[{"match":"a","on_disconnect":"stop","wait":"3s","detach_timeout":"1m","detach_cluster":"c","cancel":"stop"}]`,
			[]string{"/tools/0/wait has", "/tools/0/detach_timeout has", "/tools/0/detach_cluster has", "/tools/0/cancel has"}},
		{known + `"on_disconnect":"continue","wait":"3s","detach_timeout":"1m","detach_cluster":"c","tools":[{"match":"a","cancel":"stop"}]`, nil},
		{known + `"tools":[{"match":"get_*"},{"match":"get_it","guard":"required"}]`, []string{"/tools/1 is never used"}},
		{known + `"tools":[{"match":"get_it","guard":"required"},{"match":"get_*"}]`, nil},
		{known + `"tools":[{"match":"get_*"},{"match":"*_it"},{"match":"get_*"}]`, []string{"/tools/2 is never used"}},

		{`"anonymous":true,"strip":false,"tools":[{"match":"a","guard":"derived"}]`, []string{"/anonymous makes one caller of all"}},
		{known + `"ignore_cookies":["lb"]`, []string{"/ignore_cookies has no effect: cookies count for anonymous callers only"}},
		{`"anonymous":true,"strip":false,"ignore_cookies":["lb"]`, nil},
		{`"anonymous":true,"preset":"derived"`, []string{"/anonymous makes one caller of all"}},
		{known + `"anonymous":true,"preset":"derived"`, []string{"/anonymous makes one caller of all"}},
		{`"anonymous":true,"strip":false,"tools":[{"match":"a","guard":"required"}]`, nil},
		{known + `"preset":"derived"`, nil},

		{known + `"tools":[{"match":"a","guard":"off","window":"1m","exclude":["/a"],"round":{"/b":1},"status_tool":"b","on_unknown":"retry","on_disconnect":"continue","on_in_flight":"wait","wait":"3s","detach":true,"detach_timeout":"1m","detach_cluster":"c","cancel":"stop","on_tool_error":"release","on_error":"release","released_errors":[1],"not_done":[{"pointer":"/a","equals":1}],"ttl":"1m","result_id":"/id"}]`,
			[]string{"/tools/0/window has no effect: the guard is off", "/tools/0/on_unknown has", "/tools/0/on_disconnect has", "/tools/0/on_in_flight has", "/tools/0/wait has", "/tools/0/detach has", "/tools/0/detach_timeout has", "/tools/0/detach_cluster has", "/tools/0/cancel has", "/tools/0/on_tool_error has", "/tools/0/on_error has", "/tools/0/released_errors has", "/tools/0/not_done has", "/tools/0/ttl has", "/tools/0/result_id has", "/tools/0/exclude has", "/tools/0/round has", "/tools/0/status_tool has"}},
		{known + `"tools":[{"match":"a","status_argument":"id"},{"match":"b","status_argument":"id","status_tool":"get"}]`, []string{"/tools/0/status_argument has no effect: no status_tool is named"}},
		{known + `"log_unkeyed":true,"stray_key":"refuse","tools":[{"match":"a","guard":"off","exclude":["/a"],"round":{"/b":1},"status_tool":"b"}]`, nil},
		{known + `"tools":[{"match":"a","window":"10m"},{"match":"b","guard":"required","window":"1m"},{"match":"c","guard":"derived","window":"1m"}]`,
			[]string{"/tools/0/window has no effect: it is for the guard derived", "/tools/1/window has no effect"}},
		{known + `"preset":"derived","tools":[{"match":"a","window":"1m","exclude":["/a"]}]`, nil},

		{known + `"tools":[{"match":"charge","guard":"required","status_tool":"charge"}]`, []string{"/tools/0/status_tool names a tool that is guarded itself"}},
		{known + `"preset":"derived","tools":[{"match":"charge","status_tool":"get_charge"}]`, []string{"/tools/0/status_tool names a tool that is guarded itself"}},
		{known + `"preset":"derived","tools":[{"match":"charge","status_tool":"get_charge"},{"match":"get_*","guard":"off"}]`, nil},
		{known + `"tools":[{"match":"charge","guard":"required","status_tool":"get_charge"}]`, nil},

		// A header that makes Go's net/http send a POST again goes on to the server.
		{`"anonymous":true`, []string{"/strip is not there, so the header idempotency-key goes on to the server"}},
		{`"anonymous":true,"preset":"gateway"`, []string{"/anonymous takes callers", "/strip is not there, so the header idempotency-key"}},
		{`"anonymous":true,"keys":["json:/params/k","header:X-Idempotency-Key"]`, []string{"/strip is not there, so the header x-idempotency-key"}},
		{`"anonymous":true,"strip":true`, nil},
		{`"anonymous":true,"strip":false`, nil},
		{`"anonymous":true,"forward_key":"X-Own-Key"`, nil},
		{`"anonymous":true,"keys":["header:X-Own-Key"]`, nil},
		{`"anonymous":true,"preset":"sep3182"`, nil},
		{`"preset":"gateway","principal":["metadata:jwt/sub",["peer:uri_san"],["metadata:jwt/sub","header:x-agent"]],"strip":true`, nil},
		{`"preset":"gateway","principal":["metadata:jwt/sub","header:x-user",["header:a","header:b"]],"strip":true`, []string{"/principal/1 is an identity that nobody verified", "/principal/2 is an identity that nobody verified"}},
		{`"preset":"gateway","anonymous":true,"strip":true`, []string{"/anonymous takes callers whose identity nobody verified"}},
		{`"anonymous":true,"preset":"forward"`, nil},
	} {
		got := warnings(t, `{"policies":{"p":{`+c.policy+`}},"default":"p"}`)
		if !slices.EqualFunc(got, c.want, func(got, want string) bool { return strings.HasPrefix(got, "/policies/p"+want) }) {
			t.Errorf("%s: expected %q, found %q", c.policy, c.want, got)
		}
	}
}
