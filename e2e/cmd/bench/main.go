// Command bench measures what the filter costs: CPU time of a real Envoy for each
// request, without the filter and with it, in one run; and the speed of the canonical
// form. It prints the targets beside the figures and judges nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/callonce/callonce/e2e/tools"
)

const usage = `bench: CPU time of Envoy per request, without the filter and with it; speed of the canonical form

Usage:  bench [flags]
`

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
	plugin := flags.String("plugin", "", "`FILE` of the compiled filter (default dist/callonce.wasm)")
	flags.IntVar(&plan.rounds, "rounds", 15, "`NUMBER` of samples of each case, taken in turn")
	flags.IntVar(&plan.requests, "requests", 1000, "`NUMBER` of requests in a sample")
	flags.IntVar(&plan.connections, "connections", 4, "`NUMBER` of requests at a time")
	canonical := flags.Bool("canonical", true, "also measure the canonical form")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if err := plan.check(flags.Args()); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	err := bench(ctx, plan, *plugin, *canonical, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// plan is how much is measured.
type plan struct {
	rounds, requests, connections int
}

func (p plan) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("want flags only, got the argument %q (see -help)", rest[0])
	}
	for _, f := range []struct {
		name     string
		min, got int
	}{{"rounds", 1, p.rounds}, {"requests", p.connections, p.requests}, {"connections", 1, p.connections}} {
		if f.got < f.min {
			return fmt.Errorf("-%s: want at least %d, got %d", f.name, f.min, f.got)
		}
	}
	return nil
}

func bench(ctx context.Context, plan plan, plugin string, canonical bool, stdout io.Writer) error {
	root, err := tools.Root()
	if err != nil {
		return err
	}
	if plugin == "" {
		plugin = filepath.Join(root, "dist", "callonce.wasm")
	}
	if _, err := os.Stat(plugin); err != nil {
		return fmt.Errorf("want the compiled filter (make build makes it): %w", err)
	}
	if err := benchEnvoy(ctx, plan, plugin, stdout); err != nil {
		return err
	}
	if !canonical {
		return nil
	}
	return benchCanonical(ctx, root, stdout)
}

// benchCanonical passes on what the package's own benchmarks print.
func benchCanonical(ctx context.Context, root string, stdout io.Writer) error {
	fmt.Fprint(stdout, "\nCanonical form, native (target: at least 200 MB/s, 0 allocs/op)\n\n")
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", ".", "-benchmem", "./canonical")
	cmd.Dir = root
	cmd.Stdout, cmd.Stderr = stdout, stdout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%v: %w", cmd.Args, err)
	}
	return nil
}
