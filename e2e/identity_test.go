package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/callers"
	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/plugin/conformance"
)

// verifier is an Envoy with envoy/mtls-jwt.yaml: it knows callers by tokens and client
// certificates.
type verifier struct {
	proxy
	realm *callers.Realm
}

// startVerifier starts one; edits change its configuration further.
func startVerifier(t testing.TB, opts envoytest.Options, edits ...func(*envoytest.Tree)) verifier {
	t.Helper()
	opts.File, opts.Dir = "mtls-jwt.yaml", t.TempDir()
	realm, err := callers.New(opts.Dir)
	if err != nil {
		t.Fatal(err)
	}
	opts.Edit = func(e *envoytest.Tree) {
		for _, edit := range edits {
			edit(e)
		}
	}
	e, err := envoytest.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return verifier{proxy{Envoy: e}, realm}
}

var (
	tlsContext = envoytest.Chain.To("transport_socket", "typed_config")
	validation = tlsContext.To("common_tls_context", "validation_context")
	rbac       = envoytest.Filters.To(envoytest.Named("envoy.filters.http.rbac"), "typed_config")
)

// everybodyPasses leaves it to callonce whom to refuse.
func everybodyPasses(e *envoytest.Tree) { e.Remove(rbac.To("rules")...) }

// acceptStrangers lets connections in whose certificate nobody trusted has signed.
func acceptStrangers(e *envoytest.Tree) {
	everybodyPasses(e)
	e.Object(validation...)["trust_chain_verification"] = "ACCEPT_UNTRUSTED"
}

// neverValidate asks for certificates and has nothing to check them by.
func neverValidate(e *envoytest.Tree) {
	everybodyPasses(e)
	e.Remove(validation...)
	e.Set(true, tlsContext.To("require_client_certificate")...)
}

// Caller implements conformance.Verifier.
func (v verifier) Caller(t testing.TB, c conformance.Caller) http.RoundTripper {
	t.Helper()
	client := callers.Client{URI: c.URI, Stranger: c.Stranger}
	if c.Issuer != "" {
		client.Token = v.token(c)
	}
	return v.transport(t, client)
}

func (v verifier) token(c conformance.Caller) string {
	claims := map[string]any{}
	for name, v := range c.Claims {
		if claims[name] = v; v == nil {
			claims[name] = json.RawMessage("null") // nil would take the claim away
		}
	}
	if c.Tenant != "" {
		claims["tenant"] = c.Tenant
	}
	return v.realm.Token(c.Issuer, c.Subject, claims)
}

func (v verifier) transport(t testing.TB, c callers.Client) http.RoundTripper {
	t.Helper()
	transport, err := v.realm.Transport(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// charge sends the charge with a key, as a caller, and tells in a word what came back.
func (v verifier) charge(t *testing.T, c callers.Client) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", v.URL()+"/mcp", strings.NewReader(chargeBody))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Idempotency-Key": {"k"}}
	req.GetBody = nil
	resp, err := v.transport(t, c).RoundTrip(req)
	if err != nil {
		return "no connection"
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		t.Fatal(err)
	case resp.StatusCode == 403:
		return "forbidden"
	case resp.StatusCode == 401:
		return "unauthorized"
	case strings.Contains(string(text), "idempotency_requires_verified_identity"):
		return "no identity"
	case resp.StatusCode == 200 && resp.Header.Get("Idempotency-Replayed") != "":
		return "replay"
	case resp.StatusCode == 200 && strings.Contains(string(text), "ch_"):
		return "first"
	}
	t.Fatalf("%d %s", resp.StatusCode, text)
	return ""
}

// A certificate counts when it was validated, and only then, whatever the TLS context
// says and whichever connection brings it.
func TestPeerCertificates(t *testing.T) {
	const uri = "spiffe://e2e/ada"
	trusted, stranger := callers.Client{URI: uri}, callers.Client{URI: uri, Stranger: true}
	named, namedStranger := callers.Client{Name: "robot"}, callers.Client{Name: "robot", Stranger: true}
	for _, c := range []struct {
		name  string
		edit  func(*envoytest.Tree)
		wants map[*callers.Client]string // the first call under the key
	}{
		{"as it stands", func(*envoytest.Tree) {}, map[*callers.Client]string{
			{}: "forbidden", &trusted: "first", &named: "first", &stranger: "no connection"}},
		{"ACCEPT_UNTRUSTED", acceptStrangers, map[*callers.Client]string{
			{}: "no identity", &trusted: "first", &named: "first", &stranger: "no identity", &namedStranger: "no identity"}},
		{"no validation_context", neverValidate, map[*callers.Client]string{
			&trusted: "no identity", &named: "no identity", &stranger: "no identity"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := startPayments(t, payments.Options{Stateless: true})
			v := startVerifier(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL()}, c.edit)
			runs := 0
			for client, want := range c.wants {
				if got := v.charge(t, *client); got != want {
					t.Errorf("%+v: want %s, got %s", *client, want, got)
				}
				if want == "first" {
					runs++
				}
			}
			for client, want := range c.wants {
				if want == "first" {
					want = "replay" // over a new connection
				}
				if got := v.charge(t, *client); got != want {
					t.Errorf("%+v once more: want %s, got %s", *client, want, got)
				}
			}
			if n := server.Book.Count(); n != runs {
				t.Errorf("want %d charges, got %d", runs, n)
			}
		})
	}
}

// Claims of signed tokens are the identity, all of a list together; a token that is
// not right gets no further than jwt_authn, also where a replay lies ready.
func TestTokens(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true})
	v := startVerifier(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL()})
	ada := v.realm.Token(callers.First, "ada", nil)
	forged := ada[:strings.LastIndex(ada, ".")+1] + strings.Repeat("A", 342) + "="
	for _, c := range []struct {
		name  string
		token string
		want  string
	}{
		{"a token", ada, "first"},
		{"the same token", ada, "replay"},
		{"another token of the same subject", v.realm.Token(callers.First, "ada", map[string]any{"jti": "2"}), "replay"},
		{"the same subject of another issuer", v.realm.Token(callers.Second, "ada", nil), "first"},
		{"another subject", v.realm.Token(callers.First, "bob", nil), "first"},
		{"a tenant", v.realm.Token(callers.First, "ada", map[string]any{"tenant": "t"}), "first"},
		{"a tenant, again", v.realm.Token(callers.First, "ada", map[string]any{"tenant": "t"}), "replay"},
		{"no subject", v.realm.Token(callers.First, "", map[string]any{"sub": nil}), "forbidden"},
		{"a subject that is no text", v.realm.Token(callers.First, "", map[string]any{"sub": map[string]any{"a": 1}}), "unauthorized"},
		{"a subject of two lines", v.realm.Token(callers.First, "ada\nbob", nil), "no identity"},
		{"another audience", v.realm.Token(callers.First, "ada", map[string]any{"aud": "elsewhere"}), "forbidden"},
		{"expired", v.realm.Token(callers.First, "ada", map[string]any{"exp": 1}), "unauthorized"},
		{"a forged signature", forged, "unauthorized"},
		{"the first issuer's name, the second's key", v.realm.Token(callers.Second, "ada", map[string]any{"iss": callers.First}), "unauthorized"},
		{"an issuer that nobody knows", v.realm.Token(callers.First, "ada", map[string]any{"iss": "https://third.example"}), "unauthorized"},
		{"none", "", "forbidden"},
	} {
		if got := v.charge(t, callers.Client{Token: c.token}); got != c.want {
			t.Errorf("%s: want %s, got %s", c.name, c.want, got)
		}
	}
	if n := server.Book.Count(); n != 4 {
		t.Errorf("want 4 charges, got %d", n)
	}
}

// The lines in envoy/README.md that make keys, a certificate and a token make what mtls-jwt.yaml takes.
func TestRecipeForCallers(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(envoyFile(t, "README.md"), -1)
	if len(blocks) != 2 {
		t.Fatalf("want two blocks of sh in envoy/README.md, got %d", len(blocks))
	}
	dir := t.TempDir()
	run := func(script string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	run(blocks[0][1])
	server := startPayments(t, payments.Options{Stateless: true})
	e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL(), File: "mtls-jwt.yaml", Dir: dir})
	b64 := regexp.MustCompile(`(?m)^b64\(\).*$`).FindString(blocks[0][1])
	calls := strings.ReplaceAll(blocks[1][1], "https://localhost:10443", strings.Replace(e.URL(), "127.0.0.1", "localhost", 1))
	out := run(b64 + "\n" + calls)
	// Two callers, one key: two charges. The same callers again: none.
	if out += run(b64 + "\n" + calls); strings.Count(out, `"charge_id":"ch_1"`) != 2 || strings.Count(out, `"charge_id":"ch_2"`) != 2 {
		t.Errorf("want each of two callers' charge twice, got\n%s", out)
	}
	if n := server.Book.Count(); n != 2 {
		t.Errorf("want 2 charges, got %d", n)
	}
}
