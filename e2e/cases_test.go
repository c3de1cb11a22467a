package e2e_test

import (
	"errors"
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/plugin/cases"
)

// The cases from the field that a real Envoy must show.
func TestCases(t *testing.T) {
	cases.Run(t, front{must(t, buildPlugin)}, func(c cases.Case) bool { return c.Envoy })
}

// front is a real Envoy, as the cases want it.
type front struct {
	plugin string
}

func (front) Name() string { return "envoy" }

func (f front) options(s cases.Setup) envoytest.Options {
	workers := s.Workers
	if workers == 0 {
		workers = 2
	}
	return envoytest.Options{
		Plugin: f.plugin, Config: s.Config, Upstream: s.Upstream,
		Workers: workers, NoHoldHeaders: s.NoHoldHeaders, Retries: s.Retries,
	}
}

func (f front) Start(t testing.TB, s cases.Setup) cases.Proxy {
	t.Helper()
	e, err := envoytest.Start(f.options(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		if t.Failed() {
			t.Logf("envoy logged:\n%s", e.Logs())
		}
	})
	return proxy{e}
}

func (f front) StartError(t testing.TB, s cases.Setup) string {
	t.Helper()
	opts := f.options(s)
	if opts.Upstream == "" {
		opts.Upstream = "http://127.0.0.1:1" // never called
	}
	e, err := envoytest.Start(opts)
	if err == nil {
		e.Close()
		t.Fatal("want Envoy to refuse the configuration, it started")
	}
	if !errors.Is(err, envoytest.ErrRefused) {
		t.Fatal(err)
	}
	return err.Error()
}

// proxy makes of Envoy's errors failures of the test.
type proxy struct {
	*envoytest.Envoy
}

func (p proxy) Counter(t testing.TB, name string, labels map[string]string) int64 {
	t.Helper()
	n, err := p.Envoy.Counter(name, labels)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (p proxy) AccessLog(t testing.TB) []map[string]string {
	t.Helper()
	records, err := p.Envoy.AccessLog()
	if err != nil {
		t.Fatal(err)
	}
	return records
}
