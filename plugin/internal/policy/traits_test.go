package policy_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/callonce/callonce/plugin/internal/policy"
)

// A change of each member that a stored key hangs on is told by its name, and no other is.
func TestTraits(t *testing.T) {
	const before = `"server":"s","principal":["header:x-a"],"anonymous":true,"scope":["header:x-t"]`
	for after, want := range map[string]struct{ lost, unlike []string }{
		before: {},
		before + `,"ttl":"1h","lease":"3s","strip":true,"mode":"observe"`:                                {},
		`"server":"z","principal":["header:x-a"],"anonymous":true,"scope":["header:x-t"]`:                {lost: []string{"/policies/p/server"}},
		`"server":"s","principal":["header:x-b"],"anonymous":true,"scope":["header:x-t"]`:                {lost: []string{"/policies/p/principal"}},
		`"server":"s","principal":[["header:x-a","header:x-b"]],"anonymous":true,"scope":["header:x-t"]`: {lost: []string{"/policies/p/principal"}},
		`"server":"s","principal":["header:x-a"],"scope":["header:x-t"]`:                                 {lost: []string{"/policies/p/anonymous", "/policies/p/ignore_cookies"}},
		`"server":"s","principal":["header:x-a"],"anonymous":true`:                                       {lost: []string{"/policies/p/scope"}},
		before + `,"ignore_cookies":["c"]`:                                                               {lost: []string{"/policies/p/ignore_cookies"}},
		before + `,"path":"exact"`:                                                                       {lost: []string{"/policies/p/path"}},
		before + `,"path":"normalized"`:                                                                  {},
		before + `,"session":true`:                                                                       {lost: []string{"/policies/p/session"}},
		before + `,"key_per_tool":true`:                                                                  {lost: []string{"/policies/p/key_per_tool"}},
		before + `,"bind_request_id":true`:                                                               {unlike: []string{"/policies/p/bind_request_id"}},
		before + `,"tools":[{"match":"a","exclude":["/x"]}]`:                                             {unlike: []string{"/policies/p/tools (exclude, round)"}},
		before + `,"tools":[{"match":"a","round":{"/x":60}}]`:                                            {unlike: []string{"/policies/p/tools (exclude, round)"}},
		before + `,"tools":[{"match":"a","guard":"required","status_tool":"b"}]`:                         {},
	} {
		was, now := parse(t, `{"policies":{"p":{`+before+`}}}`).Traits(), parse(t, `{"policies":{"p":{`+after+`}}}`).Traits()
		lost, unlike := now.Forgets(was)
		if !slices.Equal(lost, want.lost) || !slices.Equal(unlike, want.unlike) {
			t.Errorf("%s: lost %q, unlike %q; want %q, %q", after, lost, unlike, want.lost, want.unlike)
		}
		record := now.Append(nil)
		if back, ok := policy.ReadTraits(record); !ok || !reflect.DeepEqual(back, now) {
			t.Errorf("%s: read back as %+v", after, back)
		}
		for n := range record {
			if back, ok := policy.ReadTraits(record[:n]); ok && len(back.Policies) > 0 {
				t.Errorf("%s: %d of %d bytes are a record", after, n, len(record))
			}
		}
	}
}

// Only what says nothing of who calls is left out of an anonymous caller's identity: names
// count as they are spelled, and none may be one that a login lives in.
func TestSteers(t *testing.T) {
	p := one(t, policyWith(`"ignore_cookies":["lb_*"]`))
	for name, want := range map[string]bool{
		"AWSALB": true, "AWSALBAPP-0": true, "GCLB": true, "ARRAffinity": true, "__cflb": true, "SERVERID": true, "BIGipServerpool": true, "route": true,
		"lb_1": true, "lb": false,
		"awsalb": false, "AWSALBX": false, "Route": false, "": false,
		"JSESSIONID": false, "PHPSESSID": false, "AWSELBAuthSessionCookie-0": false, "NSC_TMAS": false, "session": false, "connect.sid": false,
		"ASP.NET_SessionId": false, "laravel_session": false, "_session_id": false, "sessionid": false,
	} {
		if got := p.Steers(name); got != want {
			t.Errorf("%q: only steers %v, want %v", name, got, want)
		}
	}
}
