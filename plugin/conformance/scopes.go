package conformance

import (
	"net/http"
	"testing"
)

// Whose key it is.
var scopes = []Case{
	{18, "one-key-in-many-scopes", true, manyScopes},
	{44, "who-the-proxy-verified", true, verified},
	{48, "a-canary-answers-the-repeat", true, canary},
}

// asker is somebody who calls, with a connection and headers of their own.
type asker struct {
	name string
	c    *client
	h    headers
}

// apart lets each make the same call under the same key, twice: each gets an answer of their own, and that again.
func apart(t *testing.T, call func(*client, ...string) reply, askers []asker) {
	t.Helper()
	answers := map[string]string{}
	for _, who := range askers {
		first := call(who.c, who.h...)
		if first.Header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s was given another's answer: %s", who.name, first.Body)
			continue
		}
		wantFirst(t, first)
		if other, taken := answers[first.Body]; taken {
			t.Errorf("%s and %s were given one answer", who.name, other)
		}
		answers[first.Body] = who.name
		again := call(who.c, who.h...)
		wantReplay(t, again)
		if again.Body != first.Body {
			t.Errorf("%s was given %s, expected %s", who.name, again.Body, first.Body)
		}
	}
}

const twoServers = `{"namespace":"cases","policies":{
	"p":{"reply":"http","server":"s","principal":["header:x-user"],"scope":["header:x-tenant"]},
	"q":{"reply":"http","server":"other","principal":["header:x-user"],"scope":["header:x-tenant"]},
	"open":{"reply":"http","server":"s2","anonymous":true}},
	"routes":{"other":"q","open":"open"},"default":"p"}`

func manyScopes(t *testing.T, f Front) {
	u := newUpstream(t, asJSON)
	p := f.Start(t, Setup{Config: twoServers, Upstream: u.URL, Routes: []Route{{When: "other"}, {When: "open"}}})
	c := newClient(t, p)
	elsewhere := *c
	elsewhere.url = p.URL() + "/mcp/team-b"
	call := func(c *client, h ...string) reply { return c.call("1", "charge", `{}`, "k", h...) }

	apart(t, call, []asker{
		{"ada", c, headers{"X-User", "ada"}},
		{"another principal", c, headers{"X-User", "bob"}},
		{"another tenant by header", c, headers{"X-User", "ada", "X-Tenant", "t"}},
		{"another tenant by path", &elsewhere, headers{"X-User", "ada"}},
		{"another server", c, headers{"X-User", "ada", "X-Route", "other"}},
		{"anonymous", c, headers{"X-Route", "open"}},
		{"anonymous with a token", c, headers{"X-Route", "open", "Authorization", "Bearer a"}},
		{"anonymous with another token", c, headers{"X-Route", "open", "Authorization", "Bearer b"}},
		{"anonymous with a cookie", c, headers{"X-Route", "open", "Cookie", "a"}},
	})
	runs := u.Runs()
	for name, h := range map[string]headers{
		"nobody":                  {},
		"a token is no identity":  {"Authorization", "Bearer a"},
		"a principal twice":       {"X-User", "ada", "X-User", "ada"},
		"two principals":          {"X-User", "ada", "X-User", "bob"},
		"a tenant twice":          {"X-User", "ada", "X-Tenant", "t", "X-Tenant", "t"},
		"a principal without end": {"X-User", ""},
	} {
		if r := call(c, h...); r.Status != 400 || r.isRefusal() != "idempotency_requires_verified_identity" {
			t.Errorf("%s: expected a refusal, found %d %s", name, r.Status, r.Body)
		}
	}
	wantRuns(t, u, runs)
	wantReplay(t, (&client{t, elsewhere.url + "?q=1", c.http, c.eventual}).call("1", "charge", `{}`, "k", "X-User", "ada"))
}

const verifiedCallers = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s",
	"principal":[["metadata:envoy.filters.http.jwt_authn/payload/iss","metadata:envoy.filters.http.jwt_authn/payload/sub"],"peer:uri_san","header:x-user"],
	"scope":["metadata:envoy.filters.http.jwt_authn/payload/tenant","header:x-tenant"]}},"default":"p"}`

func verified(t *testing.T, f Front) {
	u := newUpstream(t, asJSON)
	p := f.Start(t, Setup{Config: verifiedCallers, Upstream: u.URL, Callers: true})
	as := func(who Caller) *client {
		c := newClient(t, p)
		return &client{c.t, c.url, &http.Client{Transport: p.(Verifier).Caller(t, who), Timeout: c.http.Timeout}, c.eventual}
	}
	call := func(c *client, h ...string) reply { return c.call("1", "charge", `{}`, "k", h...) }
	const uri = "spiffe://cases/ada"
	ada := as(Caller{Issuer: First, Subject: uri})
	apart(t, call, []asker{
		{"ada of the first issuer", ada, nil},
		{"a subject of that name, of the second issuer", as(Caller{Issuer: Second, Subject: uri}), nil},
		{"a certificate whose URI is that subject", as(Caller{URI: uri}), nil},
		{"a header of that value", as(Caller{}), headers{"X-User", uri}},
		{"another tenant by claim", as(Caller{Issuer: First, Subject: uri, Tenant: "t"}), nil},
		{"another tenant by header", ada, headers{"X-Tenant", "t"}},
	})
	runs := u.Runs()
	stranger := as(Caller{URI: uri, Stranger: true})
	wantRefusal(t, call(stranger), 400, "idempotency_requires_verified_identity")
	wantRefusal(t, call(as(Caller{}), "X-User", "ada", "X-User", "ada"), 400, "idempotency_requires_verified_identity")
	wantRuns(t, u, runs)
	// A stranger's certificate is as none: a token beside it counts.
	wantReplay(t, call(as(Caller{Issuer: First, Subject: uri, URI: uri, Stranger: true})))
	// A token beside a validated certificate is the same caller as the token alone.
	wantReplay(t, call(as(Caller{Issuer: First, Subject: uri, URI: "spiffe://cases/bob"})))
}

// Half of the calls go to another version of the server: a repeat finds the first
// answer all the same, whichever it would have met.
func canary(t *testing.T, f Front) {
	old, fresh := newUpstream(t, asJSON), newUpstream(t, asJSON)
	// No server is named: what stands for it must not be the cluster that was chosen.
	const config = `{"namespace":"cases","policies":{"p":{"reply":"http","anonymous":true}},"default":"p"}`
	p := f.Start(t, Setup{Config: config, Upstream: old.URL, Canary: fresh.URL})
	c := newClient(t, p)
	const keys = 24
	for i := range keys {
		key := string(rune('a' + i))
		first := c.call("1", "charge", `{}`, key)
		wantFirst(t, first)
		for range 2 { // with the first an odd number: taking turns is no plan
			again := c.call("1", "charge", `{}`, key)
			wantReplay(t, again)
			if again.Body != first.Body {
				t.Errorf("expected %s, found %s", first.Body, again.Body)
			}
		}
	}
	if a, b := old.Runs(), fresh.Runs(); a+b != keys || a == 0 || b == 0 {
		t.Errorf("%d runs at the old version and %d at the new, expected %d together, and some at each", a, b, keys)
	}
}
