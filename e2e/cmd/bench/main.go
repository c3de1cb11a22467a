// Command bench measures what the filter costs: CPU time of a real Envoy for each
// request, without the filter, with it, and with what people use in its stead, in one
// run; how that grows, in plots; what of it the ledger takes, by the size of its table;
// size, start and memory; the speed of hostsim beside Envoy's; and the speed of the
// canonical form. It prints the aims beside the figures and judges nothing.
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

  -of request   each kind of request on Envoy, without the filter and with it, beside the peers; the canonical form
  -of plots     docs/plots: cost by body, reply, entries, principals, workers and streams (with -write; each is a name of its own, too)
  -of start     size of the module, start and memory of Envoy, memory of a VM at rest and after an hour's load
  -of ledger    claim and completion on Envoy, by entries, principals and workers (a quarter of an hour)
  -of etcd      guarded calls with their keys in etcd beside the same in shared data, and etcd's size under a steady load
  -of meshes    each kind of request in the listeners of Istio and Envoy Gateway, as recorded, without the filter and with it
  -of hostsim   guarded calls under hostsim beside the same on Envoy, and hostsim's start

`

// measurement is one that -of names.
type measurement struct {
	name     string
	rounds   int // samples of each case, where no flag says it
	requests int // in a sample, where no flag says it
	run      func(ctx context.Context, plan plan, files files, stdout io.Writer) error
}

var measurements = append([]measurement{
	{"request", 4, 500, benchRequest},
	{"start", 1, 100, benchStart},
	{"ledger", 15, 400, benchLedger},
	{"hostsim", 15, 1000, benchHostsim},
	{"etcd", 15, 400, benchEtcd},
	{"meshes", 15, 400, benchMeshes},
}, plotted()...)

// files are where things are.
type files struct {
	root    string   // of the checkout
	plugin  string   // the compiled filter
	modules []module // others, to compare it with
	against string   // a commit to build and compare it with; may be empty
	plots   string   // the folder for plots; empty where none are kept
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
	var files files
	of := flags.String("of", "request", "`WHAT` is measured, one of the above")
	flags.StringVar(&files.plugin, "plugin", "", "`FILE` of the compiled filter (default dist/callonce.wasm)")
	flags.StringVar(&files.against, "against", "", "`COMMIT` to build, and to measure in the same waves")
	flags.Func("module", "`NAME=FILE` of another compiled filter, to measure in the same waves; may be given again", func(text string) error {
		name, file, ok := strings.Cut(text, "=")
		if !ok || name == "" || file == "" {
			return errors.New("want NAME=FILE")
		}
		files.modules = append(files.modules, module{name, file})
		return nil
	})
	flags.IntVar(&plan.processes, "processes", 6, "`NUMBER` of fresh Envoys of each build, where there are waves of them")
	flags.IntVar(&plan.warm, "warm", 1500, "`NUMBER` of requests of each kind before the first sample of a fresh Envoy")
	flags.Uint64Var(&plan.seed, "seed", 1, "`NUMBER` that the order in a wave follows from")
	flags.StringVar(&plan.resume, "resume", "", "`FILE` that keeps each wave, from which a run that was broken off goes on: for measurements in pieces")
	flags.IntVar(&plan.hour, "hour", 360_000, "`NUMBER` of requests that stand for an hour's load, with -of start")
	flags.IntVar(&plan.rounds, "rounds", 0, "`NUMBER` of samples of each case, taken in turn; 0 = as suits what is measured")
	flags.IntVar(&plan.requests, "requests", 0, "`NUMBER` of requests in a sample; 0 = as suits what is measured")
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
	chosen, err := measurementsOf(*of)
	for _, m := range chosen {
		plan := plan
		plan.requests, plan.rounds = cmp.Or(plan.requests, m.requests), cmp.Or(plan.rounds, m.rounds)
		if err = plan.check(flags.Args()); err != nil {
			break
		}
		if err := bench(ctx, plan, m, files, *canonical && m.name == "request", *kept, args, stdout); err != nil {
			fmt.Fprintf(stderr, "bench: %s: %v\n", m.name, err)
			return 1
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	return 0
}

// measurementsOf are those that a word of -of stands for.
func measurementsOf(word string) ([]measurement, error) {
	if word == "plots" {
		return plotted(), nil
	}
	names := []string{"plots"}
	for i, m := range measurements {
		if m.name == word {
			return measurements[i : i+1], nil
		}
		names = append(names, m.name)
	}
	return nil, fmt.Errorf("-of: want one of %s, got %q", strings.Join(names, ", "), word)
}

func bench(ctx context.Context, plan plan, m measurement, files files, canonical, kept bool, args []string, stdout io.Writer) error {
	root, err := tools.Root()
	if err != nil {
		return err
	}
	files.root, files.plugin = root, cmp.Or(files.plugin, filepath.Join(root, "dist", "callonce.wasm"))
	if kept {
		files.plots = filepath.Join(root, "docs", "plots")
	}
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
	plot := ""
	if slices.ContainsFunc(plotted(), func(p measurement) bool { return p.name == m.name }) {
		plot = "plots/" + m.name + ".svg"
	}
	return write(root, m.name, output.String(), plot)
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
