package e2e_test

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/plugin/conformance"
)

// The cases from the field that a real Envoy must show.
func TestCases(t *testing.T) {
	conformance.Run(t, front{}, func(c conformance.Case) bool { return c.Envoy })
}

func TestCrowd(t *testing.T) { conformance.Crowd(t, front{}) }

func TestTypedClaims(t *testing.T) { conformance.TypedClaims(t, front{}) }

func TestJoinedNames(t *testing.T) { conformance.JoinedNames(t, front{}) }

func TestSteeringCookies(t *testing.T) { conformance.SteeringCookies(t, front{}) }

func TestLarge(t *testing.T) { conformance.Large(t, front{}) }

func TestEnds(t *testing.T) { conformance.Ends(t, front{}) }

// Each preset plays the scenarios of its design.
func TestPresetsPlayed(t *testing.T) { conformance.Presets(t, front{}) }

func TestDetached(t *testing.T) { conformance.Detached(t, front{}) }

func TestWaiting(t *testing.T) { conformance.Waiting(t, front{}) }

// Calls that go on without their callers, and repeats that wait for them, when something breaks.
func TestTroubles(t *testing.T) { conformance.Troubles(t, front{}) }

// What servers say of their own tools, learned from answers that pass (trust_hints).
func TestHints(t *testing.T) { conformance.Hints(t, front{}) }

func TestCauses(t *testing.T) { conformance.Causes(t, front{}) }

func TestOperators(t *testing.T) { conformance.Operators(t, front{}) }

func TestForgetting(t *testing.T) { conformance.Forgetting(t, front{}) }

func TestFirstLine(t *testing.T) { conformance.FirstLine(t, front{}, "..") }

// The filter on the Go SDK, which judges our own binding (plugin/sdk), shows the same cases; with CALLONCE_SDK=1 the rest of the kit too, but
// for calls that outlive their callers, which it refuses.
func TestCasesOnTheSDK(t *testing.T) {
	conformance.Run(t, front{sdk: true}, func(c conformance.Case) bool { return c.Envoy })
}

func TestMoreOnTheSDK(t *testing.T) {
	if os.Getenv("CALLONCE_SDK") != "1" {
		t.Skip("set CALLONCE_SDK=1 for the rest of the kit on the SDK")
	}
	for name, play := range map[string]func(*testing.T, conformance.Front){
		"Crowd": conformance.Crowd, "TypedClaims": conformance.TypedClaims, "JoinedNames": conformance.JoinedNames, "SteeringCookies": conformance.SteeringCookies,
		"Large": conformance.Large, "Ends": conformance.Ends, "Presets": conformance.Presets, "Waiting": conformance.Waiting, "Causes": conformance.Causes,
		"Operators": conformance.Operators, "Forgetting": conformance.Forgetting,
	} {
		t.Run(name, func(t *testing.T) { play(t, front{sdk: true}) })
	}
}

// What the SDK cannot do Envoy refuses, in the filter's words.
func TestRefusedOnTheSDK(t *testing.T) {
	got := front{sdk: true}.StartError(t, conformance.Setup{Config: `{"policies":{"p":{"server":"s","anonymous":true,"on_disconnect":"continue"}},"default":"p","store":{"kind":"etcd","cluster":"c"}}`})
	for _, want := range []string{"/store/kind: found \"etcd\"", "/policies/p/on_disconnect: found \"continue\"", "the filter on the Go SDK makes no gRPC calls"} {
		if !strings.Contains(got, want) {
			t.Errorf("found %s\nexpected %s", got, want)
		}
	}
}

// front is a real Envoy, as the cases want it.
type front struct {
	sdk bool // with the filter on the Go SDK
}

func (front) Name() string { return "envoy" }

// plugin builds what a case wants.
func (f front) plugin(t testing.TB, s conformance.Setup) string {
	t.Helper()
	switch {
	case f.sdk && s.Faults:
		return must(t, buildFaultyOnSDK)
	case f.sdk && s.Small:
		return must(t, buildSmallOnSDK)
	case f.sdk:
		return must(t, buildOnSDK)
	case s.Faults:
		return must(t, buildFaulty)
	case s.Small:
		return must(t, buildSmall)
	}
	return must(t, buildPlugin)
}

func (f front) options(t testing.TB, s conformance.Setup) envoytest.Options {
	t.Helper()
	workers := s.Workers
	if workers == 0 {
		workers = 2
	}
	return envoytest.Options{
		Plugin: f.plugin(t, s), Config: s.Config, Upstream: s.Upstream,
		Workers: workers, NoHoldHeaders: s.NoHoldHeaders, Retries: s.Retries,
		IdleTimeout: s.IdleTimeout, Changes: s.Changes, Drain: s.Drain,
		Edit: func(e *envoytest.Tree) {
			for i := len(s.Routes) - 1; i >= 0; i-- {
				addRoute(e, s.Routes[i])
			}
			if s.Canary != "" {
				addCanary(e, s.Canary)
			}
			for _, name := range s.Hosts {
				addHost(e, name)
			}
			if s.HTTP2 {
				maps.Copy(e.Object(envoytest.Clusters.To(0)...), http2only)
			}
		},
	}
}

// addRoute puts a route before all others.
func addRoute(e *envoytest.Tree, r conformance.Route) {
	route := map[string]any{
		"name":  r.When,
		"match": map[string]any{"prefix": "/", "headers": []any{map[string]any{"name": "x-route", "string_match": map[string]any{"exact": r.When}}}},
		"route": map[string]any{"cluster": "mcp_server", "timeout": "0s"},
	}
	if r.Policy != "" {
		route["metadata"] = map[string]any{"filter_metadata": map[string]any{"callonce": map[string]any{"policy": r.Policy}}}
	}
	e.Insert([]any{route}, envoytest.Host.To("routes")...)
}

// addHost adds a virtual host for requests to its name's letters, with the first one's
// routes.
func addHost(e *envoytest.Tree, name string) {
	e.Insert([]any{map[string]any{
		"name": name, "domains": []any{conformance.Authority(name)}, "routes": e.At(envoytest.Host.To("routes")...),
	}}, envoytest.Manager.To("route_config", "virtual_hosts")...)
}

// addCanary lets every route send half of its requests to another server.
func addCanary(e *envoytest.Tree, url string) {
	e.Insert([]any{e.Cluster("canary", url)}, envoytest.Clusters...)
	routes, _ := e.At(envoytest.Host.To("routes")...).([]any)
	for i := range routes {
		action := e.Object(envoytest.Host.To("routes", i, "route")...)
		delete(action, "cluster")
		action["weighted_clusters"] = map[string]any{"clusters": []any{
			map[string]any{"name": "mcp_server", "weight": 50}, map[string]any{"name": "canary", "weight": 50},
		}}
	}
}

func (f front) Start(t testing.TB, s conformance.Setup) conformance.Proxy {
	t.Helper()
	if s.Callers {
		return startVerifier(t, f.options(t, s), acceptStrangers)
	}
	return f.startWith(t, f.options(t, s))
}

func (f front) startWith(t testing.TB, opts envoytest.Options) proxy {
	t.Helper()
	e, err := envoytest.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		if t.Failed() {
			t.Logf("envoy logged:\n%s", e.Logs())
		}
	})
	return proxy{e, f}
}

func (f front) StartError(t testing.TB, s conformance.Setup) string {
	t.Helper()
	opts := f.options(t, s)
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
	front front
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

func (p proxy) Change(t testing.TB, config string, faults bool) {
	t.Helper()
	if err := p.Envoy.Change(p.front.plugin(t, conformance.Setup{Faults: faults}), config); err != nil {
		t.Fatal(err)
	}
}

func (p proxy) Memory(t testing.TB) int64 {
	t.Helper()
	n, err := p.RSS()
	if err != nil {
		t.Skip("the memory of a process cannot be read here: ", err)
	}
	return n
}
