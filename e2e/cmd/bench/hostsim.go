package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/hostsimcmd"
)

// startUps is how often hostsim is started without, and then with, what an earlier
// start left in its cache.
const startUps = 5

// simulator is hostsim as a subject.
type simulator struct{ *hostsimcmd.Hostsim }

func (s simulator) CPU() (time.Duration, error) { return child.CPU(s.PID()) }

// benchHostsim measures guarded first calls under hostsim beside the same calls on
// Envoy, and how long hostsim takes to start.
func benchHostsim(ctx context.Context, plan plan, files files, stdout io.Writer) error {
	dir, err := os.MkdirTemp("", "callonce-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	options := hostsimcmd.Options{Plugin: files.plugin, Config: filepath.Join(dir, "config.json"), Upstream: server.URL}
	if err := os.WriteFile(options.Config, []byte(ledgerConfig), 0o600); err != nil {
		return err
	}
	starts, err := startsOf(ctx, options, dir)
	if err != nil {
		return err
	}
	options.More = []string{"--cache", filepath.Join(dir, "0")}
	var cases []benchCase
	for _, workers := range []int{1, 2} {
		envoys, stop, err := startEnvoys(server.URL, workers, envoytest.Options{Plugin: files.plugin, Config: ledgerConfig})
		if err != nil {
			return err
		}
		defer stop()
		options.Workers = workers
		h, err := hostsimcmd.Start(ctx, options)
		if err != nil {
			return err
		}
		defer h.Stop()
		cases = append(cases,
			benchCase{name: "Envoy, " + counted(workers, "worker"), subject: envoys[0], requests: plan.requests, call: firstOf(1)},
			benchCase{name: "hostsim, " + counted(workers, "worker"), subject: simulator{h}, requests: plan.requests, call: firstOf(1)})
	}
	fmt.Fprintf(stdout, "Guarded first calls of one principal, %d bytes, JSON answers of %d; %d requests at a time\n",
		len(call), len(result), plan.connections)
	samples, err := measure(ctx, plan, cases, nil)
	if err != nil {
		return err
	}
	reportSpeed(stdout, cases, samples)
	reportStarts(stdout, starts)
	return nil
}

// start is how long it took until hostsim served, and the CPU time used until then.
type start struct{ wall, cpu time.Duration }

// startsOf starts hostsim again and again, in turn with an empty cache of compiled
// code and with the one that this has left, which stay in dir as 0, 1, ….
func startsOf(ctx context.Context, options hostsimcmd.Options, dir string) (starts [2][]start, err error) {
	for i := range startUps {
		options.More = []string{"--cache", filepath.Join(dir, fmt.Sprint(i))}
		for warm := range starts {
			s, err := startOnce(ctx, options)
			if err != nil {
				return starts, err
			}
			starts[warm] = append(starts[warm], s)
		}
		fmt.Fprintf(os.Stderr, "\rstart %d of %d ", i+1, startUps)
	}
	fmt.Fprintln(os.Stderr)
	return starts, nil
}

func startOnce(ctx context.Context, options hostsimcmd.Options) (s start, err error) {
	began := time.Now()
	h, err := hostsimcmd.Start(ctx, options)
	if err != nil {
		return s, err
	}
	defer h.Stop()
	s.wall = time.Since(began)
	s.cpu, err = child.CPU(h.PID())
	return s, err
}
