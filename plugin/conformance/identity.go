package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
)

// What names a caller, a tenant or a server, and what only seems to.

const typedClaims = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s",
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
		return &client{c.t, c.url, &http.Client{Transport: p.(Verifier).Caller(t, who), Timeout: c.http.Timeout}, c.eventual}
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
	if again := as(`{"org_id":""}`).call("1", "charge", `{}`, "k"); again.Header.Get("Idempotency-Replayed") == "" {
		t.Error("an empty claim is another scope than none")
	}
	const org = "metadata:envoy.filters.http.jwt_authn/payload/org_id"
	for claims, is := range map[string]string{
		`{"org_id":["a"]}`: "a list", `{"org_id":[]}`: "a list", `{"org_id":{"a":"b"}}`: "an object", `{"org_id":{"a":null}}`: "an object", `{"org_id":null}`: "null",
		`{"org_id":9007199254740993}`: "a number of 2^53 or more",
	} {
		r := as(claims).call("1", "charge", `{}`, "k")
		if r.Status != 400 {
			t.Errorf("%s: expected a refusal, found %d %s", claims, r.Status, r.Body)
			continue
		}
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
	const config = `{"namespace":"cases","policies":{"b/c":{"reply":"http","anonymous":true},"c":{"anonymous":true},
		"odd":{"server":"x;.;outcome=.=y","anonymous":true}},"routes":{"other":"c","odd":"odd"},"default":"b/c"}`
	u := newUpstream(t, asJSON)
	p := f.Start(t, Setup{Config: config, Upstream: u.URL, Routes: []Route{{When: "other"}, {When: "odd"}}, Hosts: []string{"a", "a/b"}})
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
	wantFirst(t, c.call("1", "charge", `{}`, "k", "X-Route", "odd"))
	for _, label := range []string{"a/b~1c", "a~1b/c", "x%3B.%3Boutcome%3D.%3Dy"} {
		wantCount(t, p, "mcp_gateway_idempotency_total", map[string]string{"server": label, "outcome": "first"}, 1)
	}
}

// SteeringCookies repeats calls with the cookies that load balancers gave meanwhile: the
// caller is the same. All other cookies are part of who calls, in any order.
func SteeringCookies(t *testing.T, f Front) {
	const config = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","anonymous":true,"ignore_cookies":["lb-*"]}},"default":"p"}`
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
		{"AWSALB=1, sid=ada; theme=dark"}, {"AWSALB=1, sid=bob; theme=dark"}, {"theme=dark; AWSALB=1 sid=ada"}, {"theme=dark; AWSALB=1 sid=bob"},
		{`sid=ada; theme="dark; AWSALB=1"`}, {`sid=ada; theme="dark; AWSALB=2"`}, {"sid=adatheme=dark"}, {"sid=a; da; theme=dark"},
	}
	for _, lines := range strangers {
		wantFirst(t, c.call("3", "charge", `{}`, "k", cookie(lines...)...))
	}
	wantRuns(t, u, 2+len(strangers))
}

// Forgetting changes the configuration in ways that make strangers of keys, and in ways that
// do not. Each of the former is said in the log, once, by whichever of the workers comes to it.
func Forgetting(t *testing.T, f Front) {
	const config = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","principal":["header:x-user"]}},"default":"p"}`
	u := newUpstream(t, asJSON)
	p := f.Start(t, Setup{Config: config, Upstream: u.URL, Changes: true, Workers: 2})
	call := func() reply { return newClient(t, p).call("1", "charge", `{}`, "k", "X-User", "ada", "X-Tenant", "t") }
	wantFirst(t, call())
	const word = "what keys hang on: "
	said := func(want int, member string) {
		t.Helper()
		var n int
		for end := time.Now().Add(longest); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if n = strings.Count(p.Logs(), word); n >= want {
				break
			}
		}
		if n != want || member != "" && !strings.Contains(p.Logs(), word+member) {
			t.Errorf("said %d times, expected %d, of %s: %s", n, want, member, p.Logs())
		}
	}
	runs := 1
	for i, c := range []struct{ old, new, member string }{
		{`"namespace":"cases",`, ``, "/namespace."},
		{`"server":"s"`, `"server":"renamed"`, "/policies/p/server."},
		{`"server":"s",`, ``, "/policies/p/server."},
		{`["header:x-user"]`, `["header:x-user"],"scope":["header:x-tenant"]`, "/policies/p/scope."},
		{`"server":"s"`, `"server":"s","key_per_tool":true`, "/policies/p/key_per_tool."},
	} {
		p.Change(t, strings.Replace(config, c.old, c.new, 1), false)
		said(2*i+1, c.member)
		wantFirst(t, call())
		runs++
		wantRuns(t, u, runs)
		// The way back is such a change too, and the first key is found again. It has a ttl of
		// its own: Envoy starts nothing anew for a configuration that it still drains.
		p.Change(t, strings.Replace(config, `"server":"s"`, fmt.Sprintf(`"server":"s","ttl":"%ds"`, 301+i), 1), false)
		said(2*i+2, c.member)
		wantReplay(t, call())
	}
	p.Change(t, strings.Replace(config, `"server":"s"`, `"server":"s","ttl":"2m","lease":"9s","limits":{"entries":9},"tools":[{"match":"charge","guard":"required"}]`, 1), false)
	wantReplay(t, call())
	p.Change(t, strings.NewReplacer(`"p":{`, `"q":{`, `"default":"p"`, `"default":"q"`).Replace(config), false)
	wantReplay(t, call())
	wantRuns(t, u, runs)
	said(10, "")
}
