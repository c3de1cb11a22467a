package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
)

// startWorkers are the numbers of workers with which Envoy is started.
var startWorkers = []int{1, 4}

// begun is what one start of Envoy took, and what it holds then.
type begun struct {
	wall, cpu      float64 // ms
	resident       float64 // MiB
	linear, mapped float64 // MiB, of one VM: resident, and the size of its memory
	vms            int
}

// benchStart measures size, start and memory.
func benchStart(ctx context.Context, plan plan, files files, stdout io.Writer) error {
	parts, err := prepare(ctx, files, stdout)
	if err != nil {
		return err
	}
	defer parts.stop()
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	builds := []build{{name: "none"}}
	for _, m := range append([]module{{"empty", parts.empty}}, parts.modules...) {
		config := configRequests
		if m.name == "empty" {
			config = "{}"
		}
		builds = append(builds, build{name: m.name, options: envoytest.Options{Plugin: m.file, Config: config}})
	}
	all := make([][][]begun, len(builds)) // by build, workers, wave
	for b := range all {
		all[b] = make([][]begun, len(startWorkers))
	}
	random := newRandom(plan.seed)
	for wave := range plan.processes {
		for _, at := range random.Perm(len(builds) * len(startWorkers)) {
			b, w := at/len(startWorkers), at%len(startWorkers)
			started := builds[b]
			started.workers = startWorkers[w]
			s, r, err := beginning(started, server.URL, parts.processor)
			if err != nil {
				return err
			}
			r.stop()
			all[b][w] = append(all[b][w], s)
		}
		fmt.Fprintf(os.Stderr, "\rwave %d of %d ", wave+1, plan.processes)
	}
	fmt.Fprintln(os.Stderr)
	fmt.Fprintf(stdout, "\nEnvoy %s from its start until it serves, and what it holds a second later: medians of %d processes, and their standard errors.\n"+
		"A VM's memory is the linear memory of WebAssembly, of which so much is in use; compiled code is shared by all VMs\n\n", parts.version, plan.processes)
	reportBegun(stdout, builds, all)
	if plan.hour == 0 {
		return nil
	}
	return afterAnHour(ctx, plan, builds, server.URL, parts, stdout)
}

// beginning starts one Envoy and looks at it.
func beginning(b build, upstream, processor string) (s begun, r running, err error) {
	began := time.Now()
	if r, err = b.start(upstream, processor); err != nil {
		return s, r, err
	}
	s.wall = float64(time.Since(began).Microseconds()) / 1000
	used, err := r.envoy.CPU()
	if err == nil {
		s.cpu = float64(used.Microseconds()) / 1000
		time.Sleep(time.Second)
		err = s.look(r.envoy)
	}
	if err != nil {
		r.stop()
	}
	return s, r, err
}

// look reads what an Envoy holds now.
func (s *begun) look(e *envoytest.Envoy) error {
	resident, err := e.Resident()
	if err != nil {
		return err
	}
	s.resident = float64(resident) / (1 << 20)
	memories, err := e.LinearMemories()
	s.vms, s.linear, s.mapped = len(memories), 0, 0
	// The largest: the VMs that serve, and not those that only read the configuration.
	for _, m := range memories {
		s.linear, s.mapped = max(s.linear, float64(m.Resident)/(1<<20)), max(s.mapped, float64(m.Size)/(1<<20))
	}
	return err
}

func columnOf(of []begun, what func(begun) float64) (out []float64) {
	for _, s := range of {
		out = append(out, what(s))
	}
	return out
}

func residentOf(s begun) float64 { return s.resident }

func reportBegun(out io.Writer, builds []build, all [][][]begun) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "build\tworkers\tms\t\tCPU ms\t\tresident MiB\t\tVMs\ta VM's memory, MiB\t\tof a size of\t\tresident for each further worker, above none")
	for b, build := range builds {
		for w, workers := range startWorkers {
			of := all[b][w]
			fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%d", build.name, workers, estimateOf(columnOf(of, func(s begun) float64 { return s.wall })).text("%.0f"),
				estimateOf(columnOf(of, func(s begun) float64 { return s.cpu })).text("%.0f"), estimateOf(columnOf(of, residentOf)).text("%.1f"), of[0].vms)
			if of[0].vms > 0 {
				fmt.Fprintf(table, "\t%s\t%s", estimateOf(columnOf(of, func(s begun) float64 { return s.linear })).text("%.1f"),
					estimateOf(columnOf(of, func(s begun) float64 { return s.mapped })).text("%.1f"))
			} else {
				fmt.Fprint(table, "\t\t\t\t")
			}
			if w > 0 && b > 0 {
				// What a VM adds in all, in and beside its memory.
				further := less(less(columnOf(of, residentOf), columnOf(all[b][0], residentOf)), less(columnOf(all[0][w], residentOf), columnOf(all[0][0], residentOf)))
				for i := range further {
					further[i] /= float64(workers - startWorkers[0])
				}
				fmt.Fprintf(table, "\t%s", estimateOf(further).text("%.1f"))
			}
			fmt.Fprintln(table)
		}
	}
	table.Flush()
}

// An hour's load is a hundred calls a second for an hour, in less time: so the ttl is as much shorter, that as many entries
// live as would with one of five minutes at that rate. Each fourth call is a repeat.
const hourPrincipals = 1000

// afterAnHour sends an hour's requests to one Envoy of each build, and looks at them again.
func afterAnHour(ctx context.Context, plan plan, builds []build, upstream string, parts *parts, stdout io.Writer) error {
	fmt.Fprintf(stdout, "\nAn hour's load, %s calls of %s principals (100 a second), every fourth a repeat, sent as fast as they go; entries live for 15 s. One Envoy of each, 1 worker\n\n",
		thousands(plan.hour), thousands(hourPrincipals))
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "build\tresident MiB before\tafter\ta VM's memory before\tafter\tof a size of\tminutes")
	for _, b := range builds {
		if b.name == "empty" {
			continue
		}
		before, r, err := beginning(b, upstream, parts.processor)
		if err != nil {
			return err
		}
		began := time.Now()
		after := before
		if err = hour(ctx, r.envoy.URL(), plan, b.options.Plugin != ""); err == nil {
			err = after.look(r.envoy)
		}
		r.stop()
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\n", b.name, before.resident, after.resident, before.linear, after.linear, after.mapped, time.Since(began).Minutes())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(stdout, strings.TrimSpace("\nWhat Envoy itself keeps for the filter, entries and answers in shared data, is in the first two and in no VM's memory."))
	return nil
}

// hour sends the calls of an hour.
func hour(ctx context.Context, url string, plan plan, guarded bool) error {
	l := newLoad(url, plan.connections)
	defer l.close()
	return l.run(ctx, plan.hour, func(n int) request {
		// A connection has every connections-th call: its repeats are of its own last call.
		turn, connection := n/plan.connections, n%plan.connections
		r := request{replayed: guarded && turn%4 == 3}
		if turn%4 == 3 {
			turn--
		}
		call := turn*plan.connections + connection
		r.user = userOf(call % hourPrincipals)
		if guarded {
			r.key = fmt.Sprintf("%s-hour-%d", started, call)
		}
		return r
	})
}
