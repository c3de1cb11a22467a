package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/envoytest"
)

// configEtcd is configDefault with its keys in etcd; the steady load has a ttl of a minute, so that an entry lasts for two at most.
const (
	inEtcd       = `{"store":{"kind":"etcd","cluster":"etcd","timeout":"2s"},`
	configEtcd   = inEtcd + `"policies":{"bench":{"server":"bench","anonymous":true,"ttl":"15s",` + room + `}},"default":"bench"}`
	configSteady = inEtcd + `"policies":{"bench":{"server":"bench","anonymous":true,"ttl":"1m",` + room + `}},"default":"bench"}`
)

// benchEtcd measures calls with their keys in one etcd on this machine beside the same in shared data.
func benchEtcd(ctx context.Context, plan plan, files files, stdout io.Writer) error {
	dir, err := os.MkdirTemp("", "callonce-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	etcd, err := startStore(ctx, files.root, dir)
	if err != nil {
		return err
	}
	defer etcd.Stop()
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	withEtcd := func(config string) envoytest.Options {
		return envoytest.Options{Plugin: files.plugin, Config: config, Edit: func(t *envoytest.Tree) {
			t.Insert([]any{t.HTTP2("etcd", "http://"+etcd.addr)}, envoytest.Clusters...)
		}}
	}
	envoys, stop, err := startEnvoys(server.URL, 1, envoytest.Options{}, envoytest.Options{Plugin: files.plugin, Config: configDefault},
		withEtcd(configEtcd), withEtcd(configSteady))
	if err != nil {
		return err
	}
	defer stop()
	for _, e := range envoys[2:] {
		if err := awaitStore(ctx, e); err != nil {
			return err
		}
	}
	cases := []benchCase{
		{name: "no filter", subject: envoys[0], requests: plan.requests, call: unkeyed},
		{name: "first call, shared data", subject: envoys[1], requests: plan.requests, call: first},
		{name: "first call, etcd", subject: envoys[2], requests: plan.requests, call: first},
		{name: "replay, shared data", subject: envoys[1], requests: plan.requests, call: repeat},
		{name: "replay, etcd", subject: envoys[2], requests: plan.requests, call: repeat},
	}
	version, err := envoys[0].Version()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Envoy %s, 1 worker; etcd 3.7.3, one member on the same machine and its disk; call of %d bytes, JSON answer of %d; %d requests at a time\n",
		version, len(call), len(result), plan.connections)
	samples, err := measure(ctx, plan, cases, nil)
	if err != nil {
		return err
	}
	fmt.Fprint(stdout, "\nCPU time of Envoy per request, µs\n\n")
	report(stdout, cases, samples, 0, 1)
	if err := latencies(ctx, plan, cases, stdout); err != nil {
		return err
	}
	return steady(ctx, plan, envoys[3], etcd, stdout)
}

// store is an etcd that is measured.
type store struct {
	*child.Process
	addr string
}

func startStore(ctx context.Context, root, dir string) (*store, error) {
	binary := filepath.Join(dir, "etcd")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/etcd")
	build.Dir = filepath.Join(root, "e2e")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", build.Args, err, text)
	}
	addr, err := child.FreeAddr()
	if err != nil {
		return nil, err
	}
	p, err := child.Start("etcd", exec.Command(binary, "-data-dir", filepath.Join(dir, "data"), "-listen-client-urls", "http://"+addr,
		"-auto-compaction-retention", "1m"), nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := p.Await(ctx, child.Listening(addr)); err != nil {
		p.Stop()
		return nil, err
	}
	return &store{p, addr}, nil
}

// awaitStore returns when an Envoy's worker has got its leases.
func awaitStore(ctx context.Context, e *envoytest.Envoy) error {
	l := newLoad(e.URL(), 1)
	defer l.close()
	var err error
	for n := range 600 {
		if err = l.send(ctx, request{key: fmt.Sprintf("%s-ready-%d", started, n)}); err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("etcd is not served in time: %w", err)
}

// latencies measures how long a call takes, and how many a second there are, while so many are sent at a time as the plan says.
func latencies(ctx context.Context, plan plan, cases []benchCase, stdout io.Writer) error {
	took, wall := make([][]time.Duration, len(cases)), make([]time.Duration, len(cases))
	for round := range plan.rounds {
		for i := range cases {
			at := (i + round) % len(cases)
			l := newLoad(cases[at].subject.URL(), plan.connections)
			if r := cases[at].call(-1-round, 0); r.replayed {
				r.replayed = false
				if err := l.send(ctx, r); err != nil {
					return err
				}
				time.Sleep(settling)
			}
			var mu sync.Mutex
			l.took = func(d time.Duration) {
				mu.Lock()
				took[at] = append(took[at], d)
				mu.Unlock()
			}
			began := time.Now()
			if err := l.run(ctx, plan.requests, func(n int) request { return cases[at].call(-1-round, n) }); err != nil {
				return fmt.Errorf("%s: %w", cases[at].name, err)
			}
			wall[at] += time.Since(began)
			l.close()
		}
	}
	fmt.Fprintf(stdout, "\nTime of a call, ms, and calls a second, %d at a time\n\n", plan.connections)
	table := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "case\tcalls\tp50\tp99\tabove no filter, p50\tp99\tcalls/s")
	at := func(i int, q float64) float64 {
		return float64(took[i][int(q*float64(len(took[i])-1))].Microseconds()) / 1000
	}
	for i, c := range cases {
		slices.Sort(took[i])
		fmt.Fprintf(table, "%s\t%d\t%.2f\t%.2f\t%+.2f\t%+.2f\t%.0f\n", c.name, len(took[i]), at(i, 0.5), at(i, 0.99), at(i, 0.5)-at(0, 0.5), at(i, 0.99)-at(0, 0.99),
			float64(len(took[i]))/wall[i].Seconds())
	}
	return table.Flush()
}

// steady sends first calls at a steady rate, and tells how large etcd becomes.
func steady(ctx context.Context, plan plan, e *envoytest.Envoy, etcd *store, stdout io.Writer) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.addr}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer c.Close()
	type reading struct {
		size, used, keys, revision int64
		envoy, etcd                time.Duration
	}
	read := func() (r reading, err error) {
		status, err := c.Status(ctx, etcd.addr)
		if err != nil {
			return r, err
		}
		keys, err := c.Get(ctx, "/callonce/k/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return r, err
		}
		r = reading{size: status.DbSize, used: status.DbSizeInUse, keys: keys.Count, revision: status.Header.Revision}
		if r.envoy, err = e.CPU(); err == nil {
			r.etcd, err = child.CPU(etcd.PID())
		}
		return r, err
	}
	fmt.Fprintf(stdout, "\nFirst calls at a steady %d a second, ttl 1m: an entry lasts for one to two minutes; etcd compacts what is older than a minute\n\n", plan.rate)
	fmt.Fprintln(stdout, "minute  calls    entries  file MiB  in use MiB  writes a call  Envoy µs a call  etcd µs a call  p50 ms  p99 ms  late")
	l := newLoad(e.URL(), 64)
	defer l.close()
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	l.took = func(d time.Duration) {
		mu.Lock()
		took = append(took, d)
		mu.Unlock()
	}
	before, err := read()
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	places := make(chan struct{}, l.connections)
	total, late := 0, 0
	for minute := 1; time.Duration(minute)*time.Minute <= plan.steady; minute++ {
		tick := time.NewTicker(time.Second / time.Duration(plan.rate))
		calls := 0
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			select {
			case <-ctx.Done():
				tick.Stop()
				return ctx.Err()
			case <-tick.C:
			}
			select {
			case places <- struct{}{}:
			default:
				late++ // all connections wait
				continue
			}
			total, calls = total+1, calls+1
			r := request{key: fmt.Sprintf("%s-steady-%d", started, total)}
			all.Go(func() {
				defer func() { <-places }()
				if err := l.send(ctx, r); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			})
		}
		tick.Stop()
		after, err := read()
		mu.Lock()
		seen, bad := took, failed
		took = nil
		mu.Unlock()
		if err == nil {
			err = bad
		}
		if err != nil {
			return err
		}
		slices.Sort(seen)
		ms := func(q float64) float64 { return float64(seen[int(q*float64(len(seen)-1))].Microseconds()) / 1000 }
		fmt.Fprintf(stdout, "%6d  %7d  %7d  %8.1f  %10.1f  %13.2f  %15.0f  %14.0f  %6.2f  %6.2f  %4d\n", minute, total, after.keys, float64(after.size)/(1<<20), float64(after.used)/(1<<20),
			float64(after.revision-before.revision)/float64(calls), float64((after.envoy-before.envoy).Microseconds())/float64(calls),
			float64((after.etcd-before.etcd).Microseconds())/float64(calls), ms(0.5), ms(0.99), late)
		before = after
	}
	return nil
}
