// Command bench measures what the filter costs: CPU time of a real Envoy for each
// request, without the filter and with it, in one run; what of that the ledger takes, by
// the size of its table; the speed of hostsim beside Envoy's; and the speed of the
// canonical form. It prints the targets beside the figures and judges nothing.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/callonce/callonce/e2e/tools"
)

const usage = `bench: what the filter costs, in CPU time

Usage:  bench [flags]

  -of request   each kind of request on Envoy, without the filter and with it; the canonical form
  -of ledger    claim and completion on Envoy, by entries, principals and workers (a quarter of an hour)
  -of etcd      guarded calls with their keys in etcd beside the same in shared data, and etcd's size under a steady load
  -of hostsim   guarded calls under hostsim beside the same on Envoy, and hostsim's start

`

// measurement is one that -of names.
type measurement struct {
	name     string
	requests int // in a sample, where no flag says it
	run      func(ctx context.Context, plan plan, files files, stdout io.Writer) error
}

var measurements = []measurement{
	{"request", 1000, benchRequest},
	{"ledger", 400, benchLedger},
	{"hostsim", 1000, benchHostsim},
	{"etcd", 400, benchEtcd},
}

// files are where things are.
type files struct {
	root   string // of the checkout
	plugin string // the compiled filter
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	var plan plan
	of := flags.String("of", "request", "`WHAT` is measured: request, ledger, hostsim or etcd")
	plugin := flags.String("plugin", "", "`FILE` of the compiled filter (default dist/callonce.wasm)")
	flags.IntVar(&plan.rounds, "rounds", 15, "`NUMBER` of samples of each case, taken in turn")
	flags.IntVar(&plan.requests, "requests", 0, "`NUMBER` of requests in a sample; 0 = 1000, and 400 with -of ledger or etcd")
	flags.DurationVar(&plan.steady, "steady", 10*time.Minute, "`TIME` of the steady load, with -of etcd")
	flags.IntVar(&plan.rate, "rate", 100, "calls a second of the steady load, with -of etcd")
	flags.IntVar(&plan.connections, "connections", 4, "`NUMBER` of requests at a time")
	canonical := flags.Bool("canonical", true, "also measure the canonical form, with -of request")
	kept := flags.Bool("write", false, "put the figures into docs/measurements.md too, with machine, day and commit")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	m, err := measurementOf(*of)
	if err == nil {
		plan.requests = cmp.Or(plan.requests, m.requests)
		err = plan.check(flags.Args())
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	if err := bench(ctx, plan, m, *plugin, *canonical && m.name == "request", *kept, args, stdout); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

func measurementOf(name string) (measurement, error) {
	i := slices.IndexFunc(measurements, func(m measurement) bool { return m.name == name })
	if i < 0 {
		var names []string
		for _, m := range measurements {
			names = append(names, m.name)
		}
		return measurement{}, fmt.Errorf("-of: want one of %s, got %q", strings.Join(names, ", "), name)
	}
	return measurements[i], nil
}

func bench(ctx context.Context, plan plan, m measurement, plugin string, canonical, kept bool, args []string, stdout io.Writer) error {
	root, err := tools.Root()
	if err != nil {
		return err
	}
	files := files{root: root, plugin: cmp.Or(plugin, filepath.Join(root, "dist", "callonce.wasm"))}
	if _, err := os.Stat(files.plugin); err != nil {
		return fmt.Errorf("want the compiled filter (make build makes it): %w", err)
	}
	var output strings.Builder
	out := io.MultiWriter(stdout, &output)
	fmt.Fprintf(out, "%s\n\n", heading(ctx, root, args, time.Now()))
	if err := m.run(ctx, plan, files, out); err != nil {
		return err
	}
	if canonical {
		if err := benchCanonical(ctx, root, out); err != nil {
			return err
		}
	}
	if !kept {
		return nil
	}
	return write(root, m.name, output.String())
}

// benchCanonical passes on what the benchmarks of the canonical form beside others' print.
func benchCanonical(ctx context.Context, root string, stdout io.Writer) error {
	fmt.Fprint(stdout, "\nCanonical form, native (target: at least 450 MB/s, 0 allocs/op, 5 times the others)\n\n")
	cmd := exec.CommandContext(ctx, "go", "test", "-bench", ".", "-benchmem", ".")
	cmd.Dir = filepath.Join(root, "canonical", "peers")
	cmd.Stdout, cmd.Stderr = stdout, stdout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%v: %w", cmd.Args, err)
	}
	return nil
}
