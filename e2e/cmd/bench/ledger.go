package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
)

// sizes are the numbers of live entries at which the ledger is measured.
var sizes = []int{32, 512, 4096, 16384}

// many is the number of principals that stands for "many".
const many = 1000

// What fills the table lives for a day, the calls of the measurement as short as can
// be. So each round finds the table as the one before it did, if it waits for swept:
// until they have expired, and a pass of the sweep (nine ticks of a second) has gone
// over all buckets since.
const (
	ledgerConfig = `{"policies":{"bench":{"server":"bench","principal":["header:X-User"],"ttl":"3s","lease":"3s",
		"tools":[{"match":"fill","ttl":"24h"}],` + room + `}},"default":"bench"}`
	swept = 14 * time.Second
)

// benchLedger measures claim and completion above the same filter and the same call
// without a ledger.
func benchLedger(ctx context.Context, plan plan, files files, stdout io.Writer) error {
	dir, err := os.MkdirTemp("", "callonce-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	withoutLedger, counting := filepath.Join(dir, "without.wasm"), filepath.Join(dir, "counting.wasm")
	if err := buildVariant(ctx, files.root, withoutLedger, withoutTheLedger); err != nil {
		return err
	}
	if err := buildVariant(ctx, files.root, counting, countingMisses); err != nil {
		return err
	}
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	fmt.Fprintf(stdout, "Guarded first calls of %d bytes, JSON answers of %d; %d requests at a time. The table holds so many\n"+
		"entries when a sample begins; the sample's own come on top, and are gone before the next one.\n",
		len(call), len(result), plan.connections)
	for _, workers := range []int{1, 2} {
		if err := ledgerCost(ctx, plan, files.plugin, withoutLedger, server.URL, workers, stdout); err != nil {
			return err
		}
	}
	return ledgerMisses(ctx, counting, server.URL, stdout)
}

// ledgerCost measures all sizes on Envoys of so many workers, in one go.
func ledgerCost(ctx context.Context, plan plan, plugin, withoutLedger, upstream string, workers int, stdout io.Writer) error {
	options := []envoytest.Options{{}, {Plugin: withoutLedger, Config: ledgerConfig}}
	cases := []benchCase{
		{name: "no filter", requests: plan.requests, call: firstOf(1)},
		{name: "no ledger", requests: plan.requests, call: firstOf(1)},
	}
	var fills []int
	for _, principals := range []int{1, many} {
		for _, size := range sizes {
			fills = append(fills, size)
			options = append(options, envoytest.Options{Plugin: plugin, Config: ledgerConfig})
			cases = append(cases, benchCase{
				name: fmt.Sprintf("%d entries, %s", size, counted(principals, "principal")),
				// Of few entries the sample's own would soon be most.
				requests: max(min(plan.requests, 2*size), plan.connections),
				call:     firstOf(principals),
			})
		}
	}
	envoys, stop, err := startEnvoys(upstream, workers, options...)
	if err != nil {
		return err
	}
	defer stop()
	for i, e := range envoys {
		cases[i].subject = e
		if i < 2 {
			continue
		}
		if err := fill(ctx, e.URL(), fills[i-2], cases[i].call); err != nil {
			return fmt.Errorf("%s: %w", cases[i].name, err)
		}
	}
	if err := pause(ctx); err != nil {
		return err
	}
	samples, err := measure(ctx, plan, cases, pause)
	if err != nil {
		return err
	}
	for i, e := range envoys[2:] {
		if err := holds(ctx, e, fills[i]); err != nil {
			return fmt.Errorf("%s: %w", cases[i+2].name, err)
		}
	}
	version, err := envoys[0].Version()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\nCPU time of Envoy %s per call, µs; %s\n\n", version, counted(workers, "worker"))
	report(stdout, cases, samples, 1, 0)
	return nil
}

// fill makes the table hold so many entries, of the principals of call.
func fill(ctx context.Context, url string, entries int, call func(round, n int) request) error {
	load := newLoad(url, 4)
	defer load.close()
	return load.run(ctx, entries, func(n int) request {
		r := call(0, n)
		r.key, r.tool = fmt.Sprintf("%s-fill-%d", started, n), "fill"
		return r
	})
}

// pause waits until the calls of a round are out of the table.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(swept):
		return nil
	}
}

// holds waits until the sweep says that the table holds so many entries again, all
// completed: otherwise something else was measured than the report says.
func holds(ctx context.Context, e *envoytest.Envoy, want int) error {
	deadline := time.Now().Add(4 * swept)
	for {
		all, err := e.Counter("callonce_entries", map[string]string{"server": "bench"})
		if err != nil {
			return err
		}
		completed, err := e.Counter("callonce_entries", map[string]string{"server": "bench", "state": "completed"})
		if err != nil {
			return err
		}
		if all == int64(want) && completed == all {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("want %d entries, all completed, in the table in the end; the sweep counts %d, %d of them completed", want, all, completed)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// How the lost swaps are counted.
const (
	missesEntries = 4096
	missesCalls   = 4000
)

// ledgerMisses counts the swaps that two workers lose to each other, with a build that
// counts them.
func ledgerMisses(ctx context.Context, counting, upstream string, stdout io.Writer) error {
	fmt.Fprintf(stdout, "\nLost compare-and-swaps of 2 workers, per 1,000 calls (%d calls, %d entries; not the build that was measured)\n\n", missesCalls, missesEntries)
	table := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "principals\tat a time\tlost")
	envoys, stop, err := startEnvoys(upstream, 2,
		envoytest.Options{Plugin: counting, Config: ledgerConfig},
		envoytest.Options{Plugin: counting, Config: ledgerConfig})
	if err != nil {
		return err
	}
	defer stop()
	for i, principals := range []int{1, many} {
		if err := fill(ctx, envoys[i].URL(), missesEntries, firstOf(principals)); err != nil {
			return err
		}
		for round, connections := range []int{4, 32} {
			lost, err := misses(ctx, envoys[i], connections, func(n int) request { return firstOf(principals)(round, n) })
			if err != nil {
				return err
			}
			fmt.Fprintf(table, "%d\t%d\t%.1f\n", principals, connections, 1000*float64(lost)/missesCalls)
		}
	}
	return table.Flush()
}

func misses(ctx context.Context, e *envoytest.Envoy, connections int, call func(n int) request) (int64, error) {
	before, err := e.Counter(missesMetric, nil)
	if err != nil {
		return 0, err
	}
	load := newLoad(e.URL(), connections)
	defer load.close()
	if err := load.run(ctx, missesCalls, call); err != nil {
		return 0, err
	}
	after, err := e.Counter(missesMetric, nil)
	return after - before, err
}
