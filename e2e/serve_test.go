package e2e_test

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/hostsimcmd"
)

// A configuration with ten mistakes gets ten messages, each at its place, and the same
// from Envoy's log, from callonce check, and from callonce check with the filter itself.
func TestTenMistakes(t *testing.T) {
	const config = `{"store":{"kind":"redis"},"policies":{
		"p":{"sever":"x","anonymous":"yes","keys":["Idempotency-Key"],"ttl":"5 minutes","limits":{"entries":0},"tools":[{"guard":"sometimes"}]},
		"q":{"reply":"http"}},"routes":{"mcp":"nobody"}}`
	places := []string{
		"/store/kind", "/policies/p/sever", "/policies/p/anonymous", "/policies/p/keys/0", "/policies/p/ttl", "/policies/p/limits/entries",
		"/policies/p/tools/0/guard", "/policies/p/tools/0/match", "/policies/q/principal", "/routes/mcp",
	}
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(more ...string) []string {
		cmd := exec.CommandContext(t.Context(), must(t, buildCommand), append([]string{"check", "--config", file}, more...)...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Fatalf("%v: want status 1, got %v: %s", cmd.Args, err, out)
		}
		return mistakes(string(out))
	}
	told := check()
	for i, m := range told {
		if i < len(places) && !strings.HasPrefix(m, places[i]+": found ") {
			t.Errorf("want a mistake at %s, got %s", places[i], m)
		}
	}
	if len(told) != 10 {
		t.Errorf("want ten messages, got %d: %q", len(told), told)
	}
	if asked := check("--plugin", must(t, buildPlugin)); !slices.Equal(asked, told) {
		t.Errorf("callonce check --plugin: want\n%q, got\n%q", told, asked)
	}
	e, err := envoytest.Start(envoytest.Options{Plugin: must(t, buildPlugin), Upstream: "http://127.0.0.1:1", Config: config})
	if err == nil {
		e.Close()
		t.Fatal("want Envoy not to start, it did")
	}
	if !errors.Is(err, envoytest.ErrRefused) {
		t.Fatal(err)
	}
	if logged := mistakes(err.Error()); !slices.Equal(logged, told) {
		t.Errorf("Envoy's log: want\n%q, got\n%q", told, logged)
	}
}

// mistakes are what a text tells of a configuration, once each.
func mistakes(text string) (found []string) {
	for line := range strings.Lines(text) {
		_, m, told := strings.Cut(strings.TrimRight(line, "\n"), "configuration: /")
		if m = "/" + m; told && !slices.Contains(found, m) {
			found = append(found, m)
		}
	}
	return found
}

// callonce serve stands in for what Envoy would tell the filter of the route and of the
// caller, and speaks HTTP/2 in clear.
func TestServeFlags(t *testing.T) {
	const config = `{"policies":{
		"named":{"server":"named","anonymous":true},
		"told":{"server":"told","principal":["metadata:envoy.filters.http.jwt_authn/payload/sub"],"reply":"jsonrpc"}},
		"routes":{"mcp-*":"named"}}`
	const sub = "metadata.filter_metadata.envoy.filters.http.jwt_authn.payload.sub"
	for name, c := range map[string]struct {
		flags []string
		want  []string // of a call and its repeat
	}{
		"nothing":                {nil, []string{"first", "first"}},
		"a route":                {[]string{"--route", "mcp-1"}, []string{"first", "replay"}},
		"another route":          {[]string{"--route", "other"}, []string{"first", "first"}},
		"metadata":               {[]string{"--route", "mcp-1", "--metadata", "callonce.policy=told"}, []string{"idempotency_requires_verified_identity", "idempotency_requires_verified_identity"}},
		"metadata and a caller":  {[]string{"--metadata", "callonce.policy=told", "--property", sub + "=ada"}, []string{"first", "replay"}},
		"metadata, wrong":        {[]string{"--metadata", "callonce.policy=tolt"}, []string{"idempotency_unavailable", "idempotency_unavailable"}},
		"route as any property":  {[]string{"--property", "xds.route_name=mcp-2"}, []string{"first", "replay"}},
		"metadata as a property": {[]string{"--property", "xds.route_metadata.filter_metadata.callonce.policy=named"}, []string{"first", "replay"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := startRecorder(t)
			proxy := startHostsim(t, hostsimcmd.Options{Upstream: server.URL, More: c.flags}, config)
			for _, want := range c.want {
				resp, body := send(t, "POST", proxy.URL(), toolCall("1", "charge", `{}`), "Idempotency-Key", "k")
				if got := outcome(resp, body); got != want {
					t.Errorf("want %s, got %s", want, got)
				}
			}
		})
	}
	t.Run("HTTP/2 in clear", func(t *testing.T) {
		server := startRecorder(t)
		proxy := startHostsim(t, hostsimcmd.Options{Upstream: server.URL, More: []string{"--route", "mcp-1"}}, config)
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(transport.CloseIdleConnections)
		for _, want := range []string{"first", "replay"} {
			resp, body := sendBy(t, transport, "POST", proxy.URL(), toolCall("1", "charge", `{}`), "Idempotency-Key", "k")
			if got := outcome(resp, body); got != want || resp.ProtoMajor != 2 {
				t.Errorf("want %s over HTTP/2, got %s over %s", want, got, resp.Proto)
			}
		}
	})
}
