package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/callonce/callonce/e2e/envoytest"
)

// Two configurations: with keys in headers only, a call without one passes unread;
// with the default key sources, it must be read to see that no key stands in it. The ttl
// is the shortest that goes with the default lease, so that the table does not fill
// up with the calls of the measurement; the limits leave room for those of the last
// half minute, however fast the machine is.
const (
	configHeaders = `{"policies":{"bench":{"server":"bench","anonymous":true,"ttl":"15s","keys":["header:Idempotency-Key"],` + room + `}},"default":"bench"}`
	configDefault = `{"policies":{"bench":{"server":"bench","anonymous":true,"ttl":"15s",` + room + `}},"default":"bench"}`

	room = `"limits":{"entries":65536,"entries_per_principal":65536,"entries_per_scope":65536}`
)

// benchRequest measures what each kind of request costs.
func benchRequest(ctx context.Context, plan plan, files files, stdout io.Writer) error {
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	envoys, stop, err := startEnvoys(server.URL, 1,
		envoytest.Options{},
		envoytest.Options{Plugin: files.plugin, Config: configHeaders},
		envoytest.Options{Plugin: files.plugin, Config: configDefault})
	if err != nil {
		return err
	}
	defer stop()
	n := plan.requests
	cases := []benchCase{
		{"no filter", "", envoys[0], n, unkeyed},
		{"pass-through (nothing buffered)", "≤ +45", envoys[1], n, unkeyed},
		{"unkeyed call, read", "≤ +90", envoys[2], n, unkeyed},
		{"guarded first call", "≤ +120", envoys[2], n, first},
		{"replay", "< 0", envoys[2], n, repeat},
	}
	version, err := envoys[0].Version()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Envoy %s, 1 worker; call of %d bytes, JSON answer of %d; %d requests at a time\n",
		version, len(call), len(result), plan.connections)
	samples, err := measure(ctx, plan, cases, nil)
	if err != nil {
		return err
	}
	fmt.Fprint(stdout, "\nCPU time of Envoy per request, µs\n\n")
	report(stdout, cases, samples, 0)
	return reportMemory(stdout, envoys[0], envoys[2])
}

// startEnvoys starts an Envoy for each of the options, with so many workers, in front
// of one server. stop ends them.
func startEnvoys(upstream string, workers int, options ...envoytest.Options) (envoys []*envoytest.Envoy, stop func(), err error) {
	stop = func() {
		for _, e := range envoys {
			e.Close()
		}
	}
	for _, opts := range options {
		edit := opts.Edit
		opts.Upstream, opts.Workers, opts.Edit = upstream, workers, func(t *envoytest.Tree) {
			balance(t)
			if edit != nil {
				edit(t)
			}
		}
		envoy, err := envoytest.Start(opts)
		if err != nil {
			stop()
			return nil, nil, err
		}
		envoys = append(envoys, envoy)
	}
	return envoys, stop, nil
}

// balance gives each worker the same number of connections. The kernel, which shares
// them out otherwise, may well give all of a few to one worker.
func balance(t *envoytest.Tree) {
	t.Object("static_resources", "listeners", 0)["connection_balance_config"] = map[string]any{"exact_balance": map[string]any{}}
}
