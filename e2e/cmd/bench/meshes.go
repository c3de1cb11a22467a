package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/meshes"
)

// meshListeners are the recorded ones that are measured, beside envoy.yaml's own (""). In
// that of a WasmPlugin headers are not buffered.
var meshListeners = []struct {
	name  string // of the recording
	is    string
	ahead bool
}{
	{"", "envoy.yaml", false},
	{"istio-gateway", "Istio, gateway", false},
	{"istio-wasmplugin", "Istio, WasmPlugin", true},
	{"envoy-gateway", "Envoy Gateway, base", false},
}

// benchMeshes measures what each kind of request costs in the meshes' listeners, beside
// the same listener without the filter.
func benchMeshes(ctx context.Context, plan plan, files files, stdout io.Writer) error {
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	var options []envoytest.Options
	var failed error
	for _, l := range meshListeners {
		edit := func(e *envoytest.Tree) {
			if l.name != "" {
				failed = cmp.Or(failed, meshes.Put(l.name, e))
			}
		}
		for _, plugin := range []string{"", files.plugin} {
			o := envoytest.Options{Plugin: plugin, NoHoldHeaders: l.ahead, Edit: edit}
			if plugin != "" {
				o.Config = configDefault
			}
			options = append(options, o)
		}
	}
	envoys, stop, err := startEnvoys(server.URL, 1, options...)
	if err != nil {
		return cmp.Or(failed, err)
	}
	defer stop()
	if failed != nil {
		return failed
	}
	n := plan.requests
	var cases []benchCase
	for i := range meshListeners {
		without, with := envoys[2*i], envoys[2*i+1]
		cases = append(cases,
			benchCase{"no filter", "", without, n, unkeyed},
			benchCase{"unkeyed call, read", "", with, n, unkeyed},
			benchCase{"guarded first call", "", with, n, first},
			benchCase{"replay", "", with, n, repeat})
	}
	version, err := envoys[0].Version()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Envoy %s, 1 worker; call of %d bytes, JSON answer of %d; %d requests at a time\n", version, len(call), len(result), plan.connections)
	samples, err := measure(ctx, plan, cases, nil)
	if err != nil {
		return err
	}
	fmt.Fprint(stdout, "\nCPU time of Envoy per request, µs\n")
	each := len(cases) / len(meshListeners)
	for i, l := range meshListeners {
		fmt.Fprintf(stdout, "\n%s\n\n", l.is)
		report(stdout, cases[i*each:(i+1)*each], samples[i*each:(i+1)*each], 0)
	}
	return nil
}
