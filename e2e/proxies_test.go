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

// proxies are the two hosts of the filter, each with the configuration of the demo
// (envoy.yaml and testdata/demo.json hold the same) unless another is given.
var proxies = []struct {
	name  string
	start func(t *testing.T, upstream string, config ...string) (url string)
}{
	{"hostsim", func(t *testing.T, upstream string, config ...string) string {
		return startHostsim(t, hostsimcmd.Options{Upstream: upstream}, config...).URL()
	}},
	{"envoy", func(t *testing.T, upstream string, config ...string) string {
		return startEnvoy(t, envoytest.Options{
			Plugin: must(t, buildPlugin), Upstream: upstream, Workers: 2, Config: strings.Join(config, ""),
		}).URL()
	}},
}

// startHostsim runs hostsim serve, with a configuration of its own if one is given.
func startHostsim(t *testing.T, opts hostsimcmd.Options, config ...string) *hostsimcmd.Hostsim {
	t.Helper()
	if len(config) > 0 {
		opts.Config = filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(opts.Config, []byte(config[0]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opts.Binary, opts.Plugin = must(t, buildHostsim), must(t, buildPlugin)
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
	t.Cleanup(e.Close)
	return e
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
