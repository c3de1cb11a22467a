// Command run serves the filter under hostsim for people to try: in front of the MCP
// server that UPSTREAM names, or of a payments server of its own. It prints calls to
// paste, and stops on Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/payments"
)

const usage = `run: serves the filter under hostsim, and prints what to try

UPSTREAM=http://HOST:PORT in the environment puts it in front of that MCP server;
without it a payments server is started.

Usage:  run [flags]
`

// port is tried first, so that the calls printed are the same from day to day.
const port = "10000"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once, as if it had not been caught.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Getenv("UPSTREAM"), os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, upstream string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	opts := hostsimcmd.Options{Echo: stdout, Upstream: upstream}
	flags.StringVar(&opts.Binary, "hostsim", "", "`FILE` of hostsim (default dist/hostsim)")
	flags.StringVar(&opts.Plugin, "plugin", "", "`FILE` of the compiled filter (default dist/callonce.wasm)")
	flags.StringVar(&opts.Config, "config", "", "`FILE` of the filter's configuration (default e2e/testdata/demo.json)")
	flags.StringVar(&opts.Listen, "listen", "", "`HOST:PORT` to serve at (default 127.0.0.1:10000, or a free port when that is taken)")
	flags.IntVar(&opts.Workers, "workers", 2, "`NUMBER` of worker VMs")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "run: want flags only, got the argument %q (see -help)\n", flags.Arg(0))
		return 2
	}
	err := serve(ctx, opts, stdout)
	if ctx.Err() != nil {
		fmt.Fprintln(stdout, "\nstopped")
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "run:", err)
		return 1
	}
	return 0
}

// serve returns when ctx ends, or when something that it started does.
func serve(ctx context.Context, opts hostsimcmd.Options, stdout io.Writer) error {
	if opts.Listen == "" {
		opts.Listen = preferred()
	}
	count := ""
	if opts.Upstream == "" {
		server, err := payments.Start("127.0.0.1:0", payments.Options{Stateless: true})
		if err != nil {
			return err
		}
		defer server.Close()
		opts.Upstream = server.URL()
		count = server.URL() + "/charges"
	}
	proxy, err := hostsimcmd.Start(ctx, opts)
	if err != nil {
		return err
	}
	defer proxy.Stop()
	printCalls(stdout, proxy.URL(), opts.Upstream, count)
	select {
	case <-ctx.Done():
		return nil
	case <-proxy.Done():
		return fmt.Errorf("hostsim ended by itself: %v", proxy.Wait())
	}
}

// preferred is the usual address; "" (a free port) when somebody else has it.
func preferred() string {
	addr := net.JoinHostPort("127.0.0.1", port)
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return ""
	}
	listener.Close()
	return addr
}
