package e2e_test

import (
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/payments"
)

// proxies are the two hosts of the filter, each with the configuration of the demo
// (envoy.yaml and testdata/demo.json hold the same).
var proxies = []struct {
	name  string
	start func(t *testing.T, upstream string) (url string)
}{
	{"hostsim", func(t *testing.T, upstream string) string {
		proxy, err := hostsimcmd.Start(t.Context(), hostsimcmd.Options{
			Binary: must(t, buildHostsim), Plugin: must(t, buildPlugin), Upstream: upstream,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Stop)
		return proxy.URL()
	}},
	{"envoy", func(t *testing.T, upstream string) string {
		return startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: upstream, Workers: 2}).URL()
	}},
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
