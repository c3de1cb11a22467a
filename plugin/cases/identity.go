package cases

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode"
)

// What names a caller, a tenant or a server, and what only seems to.

const typedClaims = `{"namespace":"cases","policies":{"p":{"server":"s",
	"principal":[["metadata:envoy.filters.http.jwt_authn/payload/iss","metadata:envoy.filters.http.jwt_authn/payload/uid"],
		["metadata:envoy.filters.http.jwt_authn/payload/iss","metadata:envoy.filters.http.jwt_authn/payload/sub"]],
	"scope":["metadata:envoy.filters.http.jwt_authn/payload/org_id"]}},"default":"p"}`

// TypedClaims calls with claims of every type: each is a scope of its own, apart from the
// text that looks like it, and from the text of the same bytes.
func TypedClaims(t *testing.T, f Front) {
	u := newUpstream(t, asJSON)
	p := f.Start(t, Setup{Config: typedClaims, Upstream: u.URL, Callers: true})
	as := func(claims string) *client {
		c := newClient(t, p)
		who := Caller{Issuer: First, Subject: "user1234"}
		if err := json.Unmarshal([]byte(claims), &who.Claims); err != nil {
			t.Fatal(err)
		}
		return &client{c.t, c.url, &http.Client{Transport: p.(Verifier).Caller(t, who), Timeout: c.http.Timeout}}
	}
	answers := map[string]string{}
	scopes := []string{
		`{}`, `{"org_id":42}`, `{"org_id":"42"}`, `{"org_id":-1.5}`, `{"org_id":"-1.5"}`, `{"org_id":true}`, `{"org_id":"true"}`, `{"org_id":1}`,
		`{"org_id":false}`, `{"org_id":0}`, `{"org_id":5179135242756705}`, `{"org_id":"abcdef2C"}`, `{"uid":7}`, `{"uid":"7"}`,
	}
	for _, claims := range scopes {
		first := as(claims).call("1", "charge", `{}`, "k")
		if first.Header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s was given the answer of %s", claims, answers[first.Body])
			continue
		}
		wantFirst(t, first)
		answers[first.Body] = claims
		again := as(claims).call("1", "charge", `{}`, "k")
		wantReplay(t, again)
		if again.Body != first.Body {
			t.Errorf("%s was given the answer of %s", claims, answers[again.Body])
		}
	}
	wantRuns(t, u, len(scopes))
	const org = "metadata:envoy.filters.http.jwt_authn/payload/org_id"
	for claims, is := range map[string]string{
		`{"org_id":["a"]}`: "a list", `{"org_id":[]}`: "a list", `{"org_id":{"a":"b"}}`: "an object", `{"org_id":{"a":null}}`: "an object", `{"org_id":null}`: "null",
		`{"org_id":9007199254740993}`: "a number of 2^53 or more",
	} {
		r := as(claims).call("1", "charge", `{}`, "k")
		if refused := wantRefusal(t, r, 400, "idempotency_requires_verified_identity"); !strings.Contains(refused.Error.Message, `"`+org+`" is `+is) {
			t.Errorf("%s: expected a word on %s that is %s, found %s", claims, org, is, refused.Error.Message)
		}
	}
	wantRuns(t, u, len(scopes))
}

// Authority is the host that requests name for a virtual host: its letters.
func Authority(virtualHost string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) {
			return c
		}
		return -1
	}, virtualHost) + ".example"
}

// JoinedNames has two servers without a name whose virtual host and policy, joined, are
// one text.
func JoinedNames(t *testing.T, f Front) {
	const config = `{"namespace":"cases","policies":{"b/c":{"anonymous":true},"c":{"anonymous":true}},"routes":{"other":"c"},"default":"b/c"}`
	u := newUpstream(t, asJSON)
	p := f.Start(t, Setup{Config: config, Upstream: u.URL, Routes: []Route{{When: "other"}}, Hosts: []string{"a", "a/b"}})
	c := newClient(t, p)
	one := func() reply { return c.call("1", "charge", `{}`, "k", "Host", Authority("a")) }
	two := func() reply { return c.call("1", "charge", `{}`, "k", "Host", Authority("a/b"), "X-Route", "other") }
	first := one()
	wantFirst(t, first)
	other := two()
	wantFirst(t, other)
	wantRuns(t, u, 2)
	if again := one(); again.Body != first.Body {
		t.Errorf("expected %s, found %s", first.Body, again.Body)
	}
	if again := two(); again.Body != other.Body {
		t.Errorf("expected %s, found %s", other.Body, again.Body)
	}
	wantRuns(t, u, 2)
	for _, label := range []string{"a/b~1c", "a~1b/c"} {
		wantCount(t, p, "mcp_gateway_idempotency_total", map[string]string{"server": label, "outcome": "first"}, 1)
	}
}

// SteeringCookies repeats calls with the cookies that load balancers gave meanwhile: the
// caller is the same. All other cookies are part of who calls, in any order.
func SteeringCookies(t *testing.T, f Front) {
	const config = `{"namespace":"cases","policies":{"p":{"server":"s","anonymous":true,"ignore_cookies":["lb-*"]}},"default":"p"}`
	busy := newGate()
	u := newUpstream(t, func(w http.ResponseWriter, s seen) {
		if s.Header.Get("Idempotency-Key") != "slow" || busy.wait(s) {
			asJSON(w, s)
		}
	})
	p := f.Start(t, Setup{Config: config, Upstream: u.URL})
	c := newClient(t, p)
	cookie := func(lines ...string) (h headers) {
		for _, l := range lines {
			h = append(h, "Cookie", l)
		}
		return h
	}
	running := c.begin(toolCall("1", "charge", `{}`), "Idempotency-Key", "slow", "Cookie", "AWSALB=one; AWSALBCORS=one")
	u.await(t, 1)
	wantRefusal(t, c.call("2", "charge", `{}`, "slow", "Cookie", "AWSALB=two; AWSALBCORS=two"), 409, "idempotency_in_flight")
	wantRefusal(t, c.call("3", "charge", `{}`, "slow"), 409, "idempotency_in_flight")
	busy.open()
	wantFirst(t, running.wait(t))
	wantRuns(t, u, 1)

	wantFirst(t, c.call("1", "charge", `{}`, "k", cookie("sid=ada; GCLB=1; theme=dark")...))
	for _, lines := range [][]string{
		{"sid=ada; theme=dark"}, {"theme=dark; sid=ada; GCLB=2"}, {"INGRESSCOOKIE=a|b; theme=dark;sid=ada"}, {"theme=dark", "sid=ada"}, {"sid=ada", "route=7", "theme=dark"},
		{"sid=ada; lb-1=x; theme=dark; BIGipServerpool_http=1.2.3"}, {"ARRAffinity=1; ARRAffinitySameSite=1; SERVERID=a; sid=ada;; theme=dark; "},
	} {
		wantReplay(t, c.call("2", "charge", `{}`, "k", cookie(lines...)...))
	}
	wantRuns(t, u, 2)
	strangers := [][]string{
		{"sid=bob; theme=dark"}, {"sid=ada"}, {"sid=ada; theme=dark; theme=dark"}, {"sid=ada; theme=dark; JSESSIONID=1"}, {"sid=ada; theme=dark; JSESSIONID=2"},
		{"sid=ada; theme=dark; AWSELBAuthSessionCookie-0=x"}, {"sid=ada; theme=dark; awsalb=1"}, {"sid=ada; theme=dark; xroute=1"}, {"sid=ada; theme=dark; AWSALB"},
		{`sid=ada; theme="dark; AWSALB=1"`}, {`sid=ada; theme="dark; AWSALB=2"`}, {"sid=adatheme=dark"}, {"sid=a; da; theme=dark"},
	}
	for _, lines := range strangers {
		wantFirst(t, c.call("3", "charge", `{}`, "k", cookie(lines...)...))
	}
	wantRuns(t, u, 2+len(strangers))
}
