package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/envoytest"
)

// Envoys of one build differ from each other by more than builds do: by where code and memory come to lie. So each build is measured
// in fresh processes, a wave of one of each after another; what one process gives is one value, however many requests it served.

// fewest is the number of processes of each build below which a difference means little.
const fewest = 6

// build is one thing that each wave starts a fresh process of.
type build struct {
	name    string
	options envoytest.Options
	workers int // 0 means 1
	// external says that the processor runs beside it, for this process alone.
	external bool
	// ready is called once for each process, before the first sample, with Envoy's address; may be nil.
	ready func(ctx context.Context, url string) error
	cases []waveCase
}

// waveCase is one kind of request, measured in each process of a build.
type waveCase struct {
	name     string
	aim      string
	requests int // in a sample; 0 = as the plan says
	warm     int // requests before the first sample; 0 = as the plan says
	call     func(round, n int) request
	// before is called before each sample, with Envoy's address and the number of the sample's calls; may be nil.
	before func(ctx context.Context, url string, calls int) error
}

// reading is CPU time in µs for each request: of Envoy's workers, of its whole process, and of the process beside it.
type reading struct{ Workers, Process, Beside float64 }

// samples are one reading for each wave, of each case of each build.
type samples [][][]reading

// of returns one number of each wave.
func (s samples) of(build, kase int, what func(reading) float64) []float64 {
	var out []float64
	for _, r := range s[build][kase] {
		out = append(out, what(r))
	}
	return out
}

func workersOf(r reading) float64 { return r.Workers }
func processOf(r reading) float64 { return r.Process }
func besideOf(r reading) float64  { return r.Beside }

// orders returns in which order each wave starts its n builds, and each round takes its samples: a random one each time.
func orders(seed uint64, waves, rounds, n int) (starts [][]int, rows [][][]int) {
	random := newRandom(seed)
	for range waves {
		starts = append(starts, random.Perm(n))
		var wave [][]int
		for range rounds {
			wave = append(wave, random.Perm(n))
		}
		rows = append(rows, wave)
	}
	return starts, rows
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// running is a process of a wave.
type running struct {
	envoy  *envoytest.Envoy
	beside *child.Process
}

func (r running) stop() {
	if r.envoy != nil {
		r.envoy.Close()
	}
	if r.beside != nil {
		r.beside.Stop()
	}
}

// used is the CPU time that has been used so far.
func (r running) used() (workers, process, beside time.Duration, err error) {
	if workers, err = r.envoy.WorkerCPU(); err != nil {
		return
	}
	if process, err = r.envoy.CPU(); err != nil || r.beside == nil {
		return
	}
	beside, err = child.CPU(r.beside.PID())
	return
}

// start starts one process of a build.
func (b build) start(upstream, processor string) (r running, err error) {
	options := b.options
	options.Upstream, options.Workers = upstream, b.workers
	edits := []func(*envoytest.Tree){balance, passRoute}
	if b.options.Edit != nil {
		edits = append(edits, b.options.Edit)
	}
	if b.external {
		var addr string
		if r.beside, addr, err = startProcessor(processor); err != nil {
			return r, err
		}
		edits = append(edits, externalFilter(addr))
	}
	options.Edit = func(t *envoytest.Tree) {
		for _, edit := range edits {
			edit(t)
		}
	}
	if r.envoy, err = envoytest.Start(options); err != nil {
		r.stop()
		return r, fmt.Errorf("%s: %w", b.name, err)
	}
	return r, nil
}

// measureWaves starts wave after wave, and measures every case of every process in each. stay is called with the processes of
// each wave before they are stopped; it may be nil.
func measureWaves(ctx context.Context, plan plan, builds []build, upstream, processor string, stay func([]running) error) (samples, error) {
	starts, rows := orders(plan.seed, plan.processes, plan.rounds, len(builds))
	out, done, err := resume(plan.resume, builds)
	if err != nil {
		return nil, err
	}
	for wave := done; wave < plan.processes; wave++ {
		if err := oneWave(ctx, plan, builds, upstream, processor, starts[wave], rows[wave], out, stay, fmt.Sprintf("wave %d of %d", wave+1, plan.processes)); err != nil {
			return nil, err
		}
		if err := suspend(plan.resume, builds, out); err != nil {
			return nil, err
		}
	}
	fmt.Fprintln(os.Stderr)
	return out, nil
}

// suspended is what a file keeps of waves, so that a long measurement can be made in pieces.
type suspended struct {
	Names   []string // of builds and their cases
	Samples samples
}

func caseNames(builds []build) (names []string) {
	for _, b := range builds {
		for _, c := range b.cases {
			names = append(names, fmt.Sprint(b.name, ", ", b.workers, ", ", c.name))
		}
	}
	return names
}

// resume reads the waves that a file keeps, and how many there are: none where there is no file yet, or no name of one.
func resume(file string, builds []build) (samples, int, error) {
	out := make(samples, len(builds))
	for b := range builds {
		out[b] = make([][]reading, len(builds[b].cases))
	}
	if file == "" {
		return out, 0, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return out, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	var kept suspended
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", file, err)
	}
	if !slices.Equal(kept.Names, caseNames(builds)) {
		return nil, 0, fmt.Errorf("%s: want waves of %q, got some of %q", file, caseNames(builds), kept.Names)
	}
	return kept.Samples, len(kept.Samples[0][0]), nil
}

func suspend(file string, builds []build, of samples) error {
	if file == "" {
		return nil
	}
	text, err := json.Marshal(suspended{caseNames(builds), of})
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func oneWave(ctx context.Context, plan plan, builds []build, upstream, processor string, starts []int, rows [][]int, out samples,
	stay func([]running) error, progress string) error {
	running := make([]running, len(builds))
	defer func() {
		for _, r := range running {
			r.stop()
		}
	}()
	for i, b := range starts {
		fmt.Fprintf(os.Stderr, "\r%s: start %d of %d   ", progress, i+1, len(starts))
		r, err := builds[b].start(upstream, processor)
		if err != nil {
			return err
		}
		running[b] = r
	}
	readings := make([][][]reading, len(builds))
	for _, b := range starts {
		if err := builds[b].warm(ctx, plan, running[b].envoy.URL()); err != nil {
			return fmt.Errorf("%s: %w", builds[b].name, err)
		}
		readings[b] = make([][]reading, len(builds[b].cases))
	}
	for round, row := range rows {
		fmt.Fprintf(os.Stderr, "\r%s: round %d of %d   ", progress, round+1, len(rows))
		for _, b := range row {
			for k, c := range builds[b].cases {
				r, err := c.sample(ctx, plan, running[b], round)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", builds[b].name, c.name, err)
				}
				readings[b][k] = append(readings[b][k], r)
			}
		}
	}
	for b := range builds {
		for k := range builds[b].cases {
			out[b][k] = append(out[b][k], medianReading(readings[b][k]))
		}
	}
	if stay != nil {
		return stay(running)
	}
	return nil
}

// warm lets the compiler see each kind of request before the first sample, and then makes the process ready.
func (b build) warm(ctx context.Context, plan plan, url string) error {
	for _, c := range b.cases {
		if c.before != nil {
			continue // it has an order of its own
		}
		l, err := opened(ctx, url, plan.connections, c.call, -1)
		if err != nil {
			return err
		}
		err = l.run(ctx, cmp.Or(c.warm, plan.warm), func(n int) request { return c.call(-1, n) })
		l.close()
		if err != nil {
			return err
		}
	}
	if b.ready != nil {
		return b.ready(ctx, url)
	}
	return nil
}

// sample sends one sample's requests and returns the CPU time for each.
func (c waveCase) sample(ctx context.Context, plan plan, r running, round int) (out reading, err error) {
	calls := cmp.Or(c.requests, plan.requests)
	if c.before != nil {
		if err := c.before(ctx, r.envoy.URL(), calls); err != nil {
			return out, err
		}
	}
	l, err := opened(ctx, r.envoy.URL(), min(plan.connections, calls), c.call, round)
	if err != nil {
		return out, err
	}
	defer l.close()
	workers, process, beside, err := r.used()
	if err != nil {
		return out, err
	}
	if err := l.run(ctx, calls, func(n int) request { return c.call(round, n) }); err != nil {
		return out, err
	}
	workersAfter, processAfter, besideAfter, err := r.used()
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(calls) }
	return reading{each(workersAfter - workers), each(processAfter - process), each(besideAfter - beside)}, err
}

func medianReading(of []reading) reading {
	column := func(what func(reading) float64) float64 {
		return median(samples{{of}}.of(0, 0, what))
	}
	return reading{column(workersOf), column(processOf), column(besideOf)}
}

// Request on Envoy.

// benchRequest measures what each kind of request costs, beside the peers.
func benchRequest(ctx context.Context, plan plan, files files, stdout io.Writer) error {
	parts, err := prepare(ctx, files, stdout)
	if err != nil {
		return err
	}
	defer parts.stop()
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	builds := parts.peers(waveCase{name: "call", call: unkeyed})
	first := len(builds)
	for _, m := range parts.modules {
		builds = append(builds, guarded(m))
	}
	var bare, filtered []float64
	s, err := measureWaves(ctx, plan, builds, server.URL, parts.processor, func(all []running) error {
		for i, to := range map[int]*[]float64{0: &bare, first: &filtered} {
			resident, err := all[i].envoy.Resident()
			if err != nil {
				return err
			}
			*to = append(*to, float64(resident)/(1<<20))
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Envoy %s, 1 worker; call of %d bytes, JSON answer of %d; %d requests at a time; the order of seed %d\n",
		parts.version, len(call), len(result), plan.connections, plan.seed)
	fmt.Fprintf(stdout, "%d fresh processes of each build, in waves; in each, %d samples of %d requests after %d of each kind to warm up\n",
		plan.processes, plan.rounds, plan.requests, plan.warm)
	if plan.processes < fewest {
		fmt.Fprintf(stdout, "Fewer than %d processes: differences mean little.\n", fewest)
	}
	fmt.Fprint(stdout, "\nCPU time per request, µs: medians over the processes, and their standard errors. Of Envoy's workers, if nothing else is said\n\n")
	reportWaves(stdout, builds, s)
	if len(parts.modules) > 1 {
		reportDifferences(stdout, builds[first:], s[first:])
	}
	// One worker's VM and two of the main thread (see the README of envoy/).
	const vms = 3
	if len(bare) == 0 {
		return nil // all waves are of a run before
	}
	fmt.Fprintf(stdout, "\nResident memory of Envoy: %.0f MiB without the filter, %.0f MiB with it in %d VMs: %.0f MiB each (aim: ≤ 40)\n",
		median(bare), median(filtered), vms, median(less(filtered, bare))/vms)
	return nil
}

// guarded is a build of the filter, with each kind of request.
func guarded(m module) build {
	return build{name: m.name, options: envoytest.Options{Plugin: m.file, Config: configRequests}, cases: []waveCase{
		{name: "passed on unread", aim: "≤ +25", call: passed},
		{name: "call without a key, read", aim: "≤ +90", call: unkeyed},
		{name: "guarded call, the first", aim: "≤ +120", call: first},
		{name: "replay", aim: "≤ +35", call: repeat},
	}}
}

// reportWaves prints each case above the first build's.
func reportWaves(out io.Writer, builds []build, s samples) {
	beside := false
	for b := range builds {
		beside = beside || builds[b].external
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "build\trequest\tmedian\t\tabove none\t\tof the whole process\t\tabove none\t")
	if beside {
		fmt.Fprint(table, "\tof its own process\t")
	}
	fmt.Fprintln(table, "\taim above none")
	for b, build := range builds {
		for k, c := range build.cases {
			above := func(what func(reading) float64) string {
				if b == 0 {
					return "\t"
				}
				return estimateOf(less(s.of(b, k, what), s.of(0, 0, what))).text("%+.1f")
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s", build.name, c.name, estimateOf(s.of(b, k, workersOf)).text("%.1f"), above(workersOf),
				estimateOf(s.of(b, k, processOf)).text("%.1f"), above(processOf))
			if beside {
				own := "\t"
				if build.external {
					own = estimateOf(s.of(b, k, besideOf)).text("%.1f")
				}
				fmt.Fprintf(table, "\t%s", own)
			}
			fmt.Fprintf(table, "\t%s\n", c.aim)
		}
	}
	table.Flush()
}

// reportDifferences prints the first build less each other one, case by case, in the same waves.
func reportDifferences(out io.Writer, builds []build, s samples) {
	for b := 1; b < len(builds); b++ {
		fmt.Fprintf(out, "\n%s less %s, in the same waves, µs of the workers and of the whole process\n\n", builds[0].name, builds[b].name)
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "request\tworkers\t\twhole process\t\tin errors")
		for k, c := range builds[0].cases {
			e := estimateOf(less(s.of(0, k, workersOf), s.of(b, k, workersOf)))
			errors := "?"
			if e.err > 0 {
				errors = fmt.Sprintf("%.1f", math.Abs(e.median)/e.err)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.name, e.text("%+.1f"),
				estimateOf(less(s.of(0, k, processOf), s.of(b, k, processOf))).text("%+.1f"), errors)
		}
		table.Flush()
	}
}
