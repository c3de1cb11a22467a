// Command hostsim runs a proxy-wasm filter without Envoy: as a real reverse proxy in front of a server, or just long enough to
// check a configuration.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `hostsim runs a proxy-wasm filter without Envoy.

  hostsim serve --plugin FILE.wasm --config FILE --listen HOST:PORT --upstream URL [more]
      serve HTTP/1.1 and unencrypted HTTP/2, pass every request through the filter to the upstream, log one line each
  hostsim check --config FILE [--strict | --plugin FILE.wasm]
      say whether the filter would start with this configuration, and if not, why

"hostsim serve --help" and "hostsim check --help" list all flags.
`

// errUsage marks mistakes of the command line, which end with status 2.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once, as if it had not been caught.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	var err error
	switch args[0] {
	case "serve":
		err = serve(ctx, args[1:], stdout, stderr)
	case "check":
		err = check(ctx, args[1:], stdout, stderr)
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
	default:
		err = fmt.Errorf("%w: unknown command %q; there are serve and check", errUsage, args[0])
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "hostsim: %v\n", err)
		return 2
	case errors.Is(err, errWarned):
		fmt.Fprintf(stderr, "hostsim: %v\n", err)
		return 3
	}
	fmt.Fprintf(stderr, "hostsim: %v\n", err)
	return 1
}
