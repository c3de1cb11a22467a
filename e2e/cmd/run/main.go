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
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/tools"
	"github.com/callonce/callonce/plugin/config"
)

const usage = `run: serves the filter under hostsim, and prints what to try

UPSTREAM=http://HOST:PORT in the environment puts it in front of that MCP server;
without it a payments server is started. LISTEN=HOST:PORT is where it serves.

Usage:  run [flags]
`

// usual is tried first, so that the calls printed are the same from day to day.
const usual = "127.0.0.1:10000"

func main() {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		// A second signal ends the process at once, as if it had not been caught.
		signal.Stop(signals)
		stop()
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	opts := hostsimcmd.Options{Echo: stdout, Upstream: os.Getenv("UPSTREAM")}
	flags.StringVar(&opts.Binary, "callonce", "", "`FILE` of the command callonce (default dist/callonce)")
	flags.StringVar(&opts.Plugin, "plugin", "", "`FILE` of the compiled filter (default dist/callonce.wasm)")
	flags.StringVar(&opts.Config, "config", "", "`FILE` of the filter's configuration (default e2e/testdata/run.json)")
	flags.StringVar(&opts.Listen, "listen", os.Getenv("LISTEN"), "`HOST:PORT` to serve at (default $LISTEN, else "+usual+", or a free port when that is taken)")
	flags.IntVar(&opts.Workers, "workers", 2, "`NUMBER` of worker VMs")
	etcd := flags.String("etcd", "", "`FILE` of etcd (e2e/cmd/etcd): serve with two proxies that share a ledger there")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "run: want flags only, got the argument %q (see -help)\n", flags.Arg(0))
		return 2
	}
	if opts.Config == "" {
		root, err := tools.Root()
		if err != nil {
			fmt.Fprintln(stderr, "run:", err)
			return 1
		}
		opts.Config = filepath.Join(root, "e2e", "testdata", "run.json")
	}
	start := serve
	if *etcd != "" {
		start = func(ctx context.Context, opts hostsimcmd.Options, stdout io.Writer) error {
			return serveEtcd(ctx, opts, *etcd, stdout)
		}
	}
	err := start(ctx, opts, stdout)
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
	if err := checkUpstream(opts.Upstream); err != nil {
		return err
	}
	if opts.Listen == "" {
		opts.Listen = preferred(stdout)
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
	opts.More = append(opts.More, "--admin", "127.0.0.1:0")
	proxy, err := hostsimcmd.Start(ctx, opts)
	if err != nil {
		return err
	}
	defer proxy.Stop()
	text, err := os.ReadFile(proxy.Config())
	if err != nil {
		return err
	}
	printCalls(stdout, proxy.URL(), proxy.Page(), opts.Upstream, count, config.CallerHeaders(text))
	select {
	case <-ctx.Done():
		return nil
	case <-proxy.Done():
		return fmt.Errorf("callonce serve ended by itself: %v", proxy.Wait())
	}
}

// checkUpstream names the variable, which callonce serve does not know.
func checkUpstream(upstream string) error {
	if upstream == "" {
		return nil
	}
	u, err := url.Parse(upstream)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("UPSTREAM: want http://HOST:PORT or https://HOST, such as http://127.0.0.1:8080, got %q", upstream)
	}
	if bare := u.Scheme + "://" + u.Host; strings.TrimSuffix(upstream, "/") != bare {
		return fmt.Errorf("UPSTREAM: want %s, without the path, which clients send; got %q", bare, upstream)
	}
	return nil
}

// preferred is the usual address; "" (a free port), with a word on it, when somebody
// else has that.
func preferred(out io.Writer) string {
	listener, err := net.Listen("tcp", usual)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		fmt.Fprintf(out, "%s is taken, so a free port serves; LISTEN=HOST:PORT names another\n", usual)
		return ""
	case err == nil:
		listener.Close()
	}
	return usual
}
