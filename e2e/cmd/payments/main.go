// Command payments serves the MCP server of the demo: a charge tool that takes the
// money again at every run, and a count of how often it really ran.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/callonce/callonce/e2e/payments"
)

const usage = `payments: the MCP server of the callonce demo (streamable HTTP, at every path)

Tools:  charge {customer, amount_cents, note?, delay_ms?}   every run takes the money again
        refund {charge_id}   get_charge {charge_id}   list_charges {}
Count:  GET /charges  -> {"count":N,"running":N,"charges":[...]}
        POST /reset   -> empties the book

Usage:  payments [flags]
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("payments", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	listen := flags.String("listen", "127.0.0.1:8080", "`HOST:PORT` to listen on; port 0 takes a free one")
	answer := flags.String("answer", "sse", "how tools/call is answered: `sse|json`")
	stateless := flags.Bool("stateless", false, "serve without sessions: a tools/call needs no initialize before it")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	opts, err := options(*answer, *stateless, flags.Args())
	if err != nil {
		fmt.Fprintln(stderr, "payments:", err)
		return 2
	}
	server, err := payments.Start(*listen, opts)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintf(stdout, "listening on %s\n", server.Addr())

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-stop
		server.Close()
	}()
	if err := server.Wait(); err != nil {
		fmt.Fprintln(stderr, "payments:", err)
		return 1
	}
	return 0
}

func options(answer string, stateless bool, rest []string) (payments.Options, error) {
	if len(rest) > 0 {
		return payments.Options{}, fmt.Errorf("want flags only, got the argument %q (see -help)", rest[0])
	}
	switch answer {
	case "sse", "json":
		return payments.Options{JSON: answer == "json", Stateless: stateless}, nil
	}
	return payments.Options{}, fmt.Errorf("-answer: want sse or json, got %q", answer)
}
