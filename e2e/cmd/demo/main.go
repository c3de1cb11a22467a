// Command demo plays what the filter is for: an official MCP client calls a payments
// server through hostsim with two workers, then through two replicas that share a ledger in etcd, and the transcript tells how often the
// server really charged. It ends with status 1 when anything is not as expected.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/scenarios"
	"github.com/callonce/callonce/e2e/tools"
)

const usage = `demo: plays repeats, reused keys and timeouts through the filter, and counts the charges at the server

Usage:  demo [flags]
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	var opts hostsimcmd.Options
	flags.StringVar(&opts.Binary, "callonce", "", "`FILE` of the command callonce (default dist/callonce)")
	flags.StringVar(&opts.Plugin, "plugin", "", "`FILE` of the compiled filter (default dist/callonce.wasm)")
	flags.StringVar(&opts.Config, "config", "", "`FILE` of the filter's configuration (default e2e/testdata/demo.json)")
	flags.IntVar(&opts.Workers, "workers", 2, "`NUMBER` of worker VMs")
	etcd := flags.String("etcd", "", "`FILE` of etcd (e2e/cmd/etcd): also play two replicas that share a ledger there")
	verbose := flags.Bool("verbose", false, "also show what callonce serve prints")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "demo: want flags only, got the argument %q (see -help)\n", flags.Arg(0))
		return 2
	}
	if err := play(ctx, opts, *etcd, *verbose, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return 1
	}
	fmt.Fprintln(stdout, "\nEverything was as expected.")
	return 0
}

func play(ctx context.Context, opts hostsimcmd.Options, etcd string, verbose bool, stdout, stderr io.Writer) error {
	var failed []error
	for _, answer := range []string{"sse", "json"} {
		err := playAnswer(ctx, opts, answer, verbose, stdout, stderr)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s answers: %w", answer, err))
		}
	}
	if etcd != "" {
		err := playEtcd(ctx, opts, etcd, verbose, stdout, stderr)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("replicas over etcd: %w", err))
		}
	}
	return errors.Join(failed...)
}

func playAnswer(ctx context.Context, opts hostsimcmd.Options, answer string, verbose bool, stdout, stderr io.Writer) error {
	server, err := payments.Start("127.0.0.1:0", payments.Options{JSON: answer == "json"})
	if err != nil {
		return err
	}
	defer server.Close()
	opts.Upstream = server.URL()
	starting := &untilStarted{to: stderr, always: verbose}
	opts.Echo = starting
	proxy, err := hostsimcmd.Start(ctx, opts)
	if err != nil {
		return err
	}
	defer proxy.Stop()
	// One hostsim has one policy, so the scene under a preset has a proxy of its own.
	root, err := tools.Root()
	if err != nil {
		return err
	}
	opts.Config = filepath.Join(root, "e2e", "testdata", "sep3182.json")
	sep3182, err := hostsimcmd.Start(ctx, opts)
	if err != nil {
		return err
	}
	defer sep3182.Stop()
	starting.started()
	fmt.Fprintf(stdout, "\n=== A payments server that answers with %s, behind the filter (%d workers)\n",
		map[string]string{"sse": "a stream of events", "json": "JSON"}[answer], opts.Workers)
	player := &scenarios.Player{URL: proxy.URL(), SEP3182: sep3182.URL(), Book: server.Book, Out: stdout}
	return player.Play(ctx)
}
