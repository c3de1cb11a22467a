package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
)

// Two configurations: with keys in headers only, a call without one passes unread;
// with the default places, it must be read to see that no key stands in it. The ttl
// is the shortest that goes with the default lease, so that the table does not fill
// up with the calls of the measurement.
const (
	configHeaders = `{"policies":{"bench":{"server":"bench","anonymous":true,"ttl":"15s","keys":["header:Idempotency-Key"]}},"default":"bench"}`
	configDefault = `{"policies":{"bench":{"server":"bench","anonymous":true,"ttl":"15s"}},"default":"bench"}`
)

// benchCase is one thing measured.
type benchCase struct {
	name   string
	target string // of section 8 of the contract, above no filter
	envoy  *envoytest.Envoy
	// key returns the key of the n-th request of a round; "" sends none.
	key func(round, n int) string
	// replayed says whether the answer must be a replay.
	replayed bool
}

func benchEnvoy(ctx context.Context, plan plan, plugin string, stdout io.Writer) error {
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	var envoys [3]*envoytest.Envoy
	for i, opts := range []envoytest.Options{
		{},
		{Plugin: plugin, Config: configHeaders},
		{Plugin: plugin, Config: configDefault},
	} {
		opts.Upstream = server.URL
		envoy, err := envoytest.Start(opts)
		if err != nil {
			return err
		}
		defer envoy.Close()
		envoys[i] = envoy
	}
	cases := []benchCase{
		{"no filter", "", envoys[0], noKey, false},
		{"pass-through (nothing held)", "≤ +45", envoys[1], noKey, false},
		{"unkeyed call, read", "≤ +90", envoys[2], noKey, false},
		{"guarded first call", "≤ +120", envoys[2], newKey, false},
		{"replay", "< 0", envoys[2], oneKey, true},
	}
	version, err := envoys[0].Version()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Envoy %s, 1 worker; call of %d bytes, JSON answer of %d; %d samples of %d requests a case, %d at a time\n",
		version, len(call), len(result), plan.rounds, plan.requests, plan.connections)
	samples, err := measure(ctx, plan, cases)
	if err != nil {
		return err
	}
	report(stdout, cases, samples)
	return reportMemory(stdout, envoys[0], envoys[2])
}

func noKey(int, int) string { return "" }

func newKey(round, n int) string { return fmt.Sprintf("%s-%d-%d", started, round, n) }

// oneKey is new in each round: the key of the round before may have expired.
func oneKey(round, _ int) string { return fmt.Sprintf("%s-%d", started, round) }

var started = fmt.Sprint(time.Now().UnixNano())

// measure returns Envoy's CPU time per request for each case and round. The cases
// take turns within a round, so that whatever else the machine does hits all alike;
// the first round warms up and does not count.
func measure(ctx context.Context, plan plan, cases []benchCase) ([][]time.Duration, error) {
	samples := make([][]time.Duration, len(cases))
	for round := range plan.rounds + 1 {
		for i := range cases {
			at := (i + round) % len(cases)
			sample, err := cases[at].sample(ctx, plan, round)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", cases[at].name, err)
			}
			if round > 0 {
				samples[at] = append(samples[at], sample)
			}
		}
		fmt.Fprintf(os.Stderr, "\rround %d of %d ", round, plan.rounds)
	}
	fmt.Fprintln(os.Stderr)
	return samples, nil
}

// sample sends one sample's requests and returns Envoy's CPU time for each.
func (c benchCase) sample(ctx context.Context, plan plan, round int) (time.Duration, error) {
	load := newLoad(c.envoy.URL(), plan.connections)
	defer load.close()
	// Connections are opened, and the first call of a replayed key is made, before the
	// clock starts.
	if err := load.run(ctx, plan.connections, func(int) request { return request{} }); err != nil {
		return 0, err
	}
	if c.replayed {
		if err := load.run(ctx, 1, func(int) request { return request{key: c.key(round, 0)} }); err != nil {
			return 0, err
		}
	}
	before, err := c.envoy.CPU()
	if err != nil {
		return 0, err
	}
	if err := load.run(ctx, plan.requests, func(n int) request { return request{key: c.key(round, n), replayed: c.replayed} }); err != nil {
		return 0, err
	}
	after, err := c.envoy.CPU()
	if err != nil {
		return 0, err
	}
	return (after - before) / time.Duration(plan.requests), nil
}
