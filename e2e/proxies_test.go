package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/payments"
)

type hostOfFilter struct {
	name  string
	start func(t *testing.T, upstream string, config ...string) (url string)
}

// onSDK is Envoy with the filter on the Go SDK, which judges our own binding.
var onSDK = hostOfFilter{"envoy, on the SDK", func(t *testing.T, upstream string, config ...string) string {
	return startEnvoy(t, envoytest.Options{Plugin: must(t, buildOnSDK), Upstream: upstream, Workers: 2, Config: strings.Join(config, "")}).URL()
}}

// proxies are the two hosts of the filter, each with the configuration of the demo
// (envoy.yaml and testdata/demo.json hold the same) unless another is given.
var proxies = []hostOfFilter{
	{"hostsim", func(t *testing.T, upstream string, config ...string) string {
		return startHostsim(t, hostsimcmd.Options{Upstream: upstream}, config...).URL()
	}},
	{"envoy", func(t *testing.T, upstream string, config ...string) string {
		return startEnvoy(t, envoytest.Options{
			Plugin: must(t, buildPlugin), Upstream: upstream, Workers: 2, Config: strings.Join(config, ""),
		}).URL()
	}},
}

// startHostsim runs callonce serve, with a configuration of its own if one is given.
func startHostsim(t *testing.T, opts hostsimcmd.Options, config ...string) *hostsimcmd.Hostsim {
	t.Helper()
	if len(config) > 0 {
		opts.Config = filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(opts.Config, []byte(config[0]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opts.Binary, opts.Plugin = must(t, buildCommand), must(t, buildPlugin)
	proxy, err := hostsimcmd.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	return proxy
}

func startEnvoy(t *testing.T, opts envoytest.Options) *envoytest.Envoy {
	t.Helper()
	e, err := envoytest.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if strings.Contains(e.Logs(), refusedCapability) {
			t.Errorf("the module called what envoy.yaml does not list:\n%s", e.Logs())
		}
		e.Close()
	})
	return e
}

// After which answers the client's connection ends is the same on both: Envoy takes a 400 of its own for a broken message.
func TestConnectionsAfterAnswers(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true})
	for _, proxy := range proxies {
		t.Run(proxy.name, func(t *testing.T) {
			url := proxy.start(t, server.URL(), `{"policies":{"p":{"server":"s","anonymous":true,"reply":"http","tools":[{"match":"refund","guard":"required"}]}},"default":"p"}`)
			for _, step := range []struct {
				body, contentType string
				status            int
				closes            bool
			}{
				{chargeBody, "application/json", 200, false},
				{chargeBody, "application/json", 200, false}, // a replay
				{strings.Replace(chargeBody, "1200", "1300", 1), "application/json", 409, false},
				{mustHaveKey, "application/json", 409, false}, // the same key
				{strings.Replace(mustHaveKey, `"id":1`, `"id":1,"id":2`, 1), "application/json", 400, true},
				{chargeBody, "text/plain", 400, true},
			} {
				resp, body := send(t, "POST", url, step.body, "Idempotency-Key", "k", "Content-Type", step.contentType)
				if resp.StatusCode != step.status || resp.Close != step.closes {
					t.Errorf("%s %s: want %d, connection closes %v; got %d, %v: %s", step.contentType, step.body, step.status, step.closes, resp.StatusCode, resp.Close, body)
				}
			}
		})
	}
}

// answers are the ways in which the payments server may answer.
var answers = []struct {
	name string
	opts payments.Options
}{
	{"sse", payments.Options{}},
	{"json", payments.Options{JSON: true}},
	{"sse without sessions", payments.Options{Stateless: true}},
}

func startPayments(t *testing.T, opts payments.Options) *payments.Server {
	t.Helper()
	s, err := payments.Start("127.0.0.1:0", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
