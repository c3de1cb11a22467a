// Command etcd runs one member of etcd, embedded from its own module, for tests and the demo. The real etcd has many more flags; what a
// flag here does, the one of the same name does there.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	c := embed.NewConfig()
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.Name, "name", c.Name, "`NAME` of the member")
	flags.StringVar(&c.Dir, "data-dir", "", "`DIR` for its data; what a member left there it finds again")
	client := flags.String("listen-client-urls", "http://127.0.0.1:0", "`URL` for clients; port 0 takes a free one")
	peer := flags.String("listen-peer-urls", "http://127.0.0.1:0", "`URL` for other members")
	cluster := flags.String("initial-cluster", "", "`NAME=URL,…` of all members; empty: this one alone")
	flags.Int64Var(&c.QuotaBackendBytes, "quota-backend-bytes", 0, "most `BYTES` of the database; 0 = 2 GiB")
	flags.StringVar(&c.AutoCompactionRetention, "auto-compaction-retention", "0", "`TIME` for which old versions of keys are kept, such as 5m; 0 = for ever")
	flags.StringVar(&c.ClientTLSInfo.CertFile, "cert-file", "", "`FILE` with the certificate for clients")
	flags.StringVar(&c.ClientTLSInfo.KeyFile, "key-file", "", "`FILE` with its key")
	flags.StringVar(&c.ClientTLSInfo.TrustedCAFile, "trusted-ca-file", "", "`FILE` with the authority of clients' certificates")
	flags.BoolVar(&c.ClientTLSInfo.ClientCertAuth, "client-cert-auth", false, "clients must have a certificate")
	flags.StringVar(&c.LogLevel, "log-level", "error", "`LEVEL` of the log")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if c.Dir == "" || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "etcd: want -data-dir DIR and flags only (see -help)")
		return 2
	}
	for text, into := range map[*string]*[]url.URL{client: &c.ListenClientUrls, peer: &c.ListenPeerUrls} {
		u, err := url.Parse(*text)
		if err != nil {
			fmt.Fprintln(stderr, "etcd:", err)
			return 2
		}
		*into = []url.URL{*u}
	}
	c.AdvertiseClientUrls, c.AdvertisePeerUrls = c.ListenClientUrls, c.ListenPeerUrls
	if c.InitialCluster = *cluster; *cluster == "" {
		c.InitialCluster = c.InitialClusterFromName(c.Name)
	}
	e, err := embed.StartEtcd(c)
	if err != nil {
		fmt.Fprintln(stderr, "etcd:", err)
		return 1
	}
	<-e.Server.ReadyNotify()
	fmt.Fprintf(stdout, "ready on %s\n", e.Clients[0].Addr())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	select {
	case <-stop:
		e.Close()
		return 0
	case err := <-e.Err():
		fmt.Fprintln(stderr, "etcd:", err)
		return 1
	}
}
