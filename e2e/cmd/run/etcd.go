package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/callonce/callonce/e2e/fleet"
	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/payments"
)

const tryEtcd = `
Two proxies, {ONE} and {TWO}, share one ledger in an etcd of their own,
in front of a payments server at {UPSTREAM}. Paste these, in another terminal:

  # A charge with a key, at one proxy:
  {CURL1}

  # The same once more, at the other: the first answer, with Idempotency-Replayed: true.
  {CURL2}

  # Restart everything, both proxies and etcd, and wait for the line "restarted":
  kill -USR1 {PID}

  # The same again: still the first answer.
  {CURL1}

  # How often the server really charged:
  curl -s {UPSTREAM}/charges

Ctrl-C stops everything, a second one at once. Requests follow.

`

// serveEtcd is serve for two proxies over one etcd.
func serveEtcd(ctx context.Context, opts hostsimcmd.Options, binary string, stdout io.Writer) error {
	server, err := payments.Start("127.0.0.1:0", payments.Options{Stateless: true})
	if err != nil {
		return err
	}
	defer server.Close()
	opts.Upstream = server.URL()
	f, err := fleet.Start(ctx, opts, binary, "")
	if err != nil {
		return fmt.Errorf("%w (make run STORE=etcd builds what it needs)", err)
	}
	defer f.Close()
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGUSR1)
	curl := func(url string) string {
		return "curl -si " + url + `/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -H 'x-user: me' -H 'Idempotency-Key: order-1'` +
			` -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"customer":"alice","amount_cents":1200}}}'`
	}
	one, two := f.URL(0), f.URL(1)
	fmt.Fprint(stdout, strings.NewReplacer("{ONE}", one, "{TWO}", two, "{UPSTREAM}", server.URL(), "{CURL1}", curl(one), "{CURL2}", curl(two),
		"{PID}", fmt.Sprint(os.Getpid())).Replace(tryEtcd))
	for {
		if err := f.Ended(ctx, again); !errors.Is(err, fleet.ErrAgain) {
			return err
		}
		if err := f.Restart(ctx); err != nil {
			return err
		}
		fmt.Fprintln(stdout, "restarted")
	}
}
