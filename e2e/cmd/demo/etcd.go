package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/callonce/callonce/e2e/fleet"
	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/scenarios"
)

// lease is short, so that nobody waits long before a screen on which nothing happens.
const lease = 3 * time.Second

// playEtcd plays two replicas over one etcd.
func playEtcd(ctx context.Context, opts hostsimcmd.Options, binary string, verbose bool, stdout, stderr io.Writer) error {
	server, err := payments.Start("127.0.0.1:0", payments.Options{Stateless: true, JSON: true})
	if err != nil {
		return err
	}
	defer server.Close()
	opts.Upstream = server.URL()
	if verbose {
		opts.Echo = stderr
	}
	f, err := fleet.Start(ctx, opts, binary, lease.String())
	if err != nil {
		return fmt.Errorf("%w (make demo builds what it needs)", err)
	}
	defer f.Close()
	fmt.Fprintf(stdout, "\n=== Two replicas over one ledger in etcd (%d workers each)\n", opts.Workers)
	return scenarios.PlayFleet(ctx, f, server.Book, lease, stdout)
}
