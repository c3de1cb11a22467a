package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/tools"
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

// fleet is two proxies over one etcd.
type fleet struct {
	ctx     context.Context
	opts    hostsimcmd.Options
	binary  string // of etcd
	dir     string // its data, and the configuration
	addr    string
	listen  [2]string
	etcd    *child.Process
	proxies [2]*hostsimcmd.Hostsim
}

// serveEtcd is serve for two proxies over one etcd.
func serveEtcd(ctx context.Context, opts hostsimcmd.Options, binary string, stdout io.Writer) error {
	server, err := payments.Start("127.0.0.1:0", payments.Options{Stateless: true})
	if err != nil {
		return err
	}
	defer server.Close()
	opts.Upstream = server.URL()
	dir, err := os.MkdirTemp("", "callonce-run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f := &fleet{ctx: ctx, opts: opts, binary: binary, dir: dir}
	for _, addr := range []*string{&f.addr, &f.listen[0], &f.listen[1]} {
		if *addr, err = child.FreeAddr(); err != nil {
			return err
		}
	}
	if f.opts.Config, err = inEtcd(opts.Config, dir); err != nil {
		return err
	}
	defer f.stop()
	if err := f.start(); err != nil {
		return err
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGUSR1)
	curl := func(url string) string {
		return "curl -si " + url + `/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -H 'x-user: me' -H 'Idempotency-Key: order-1'` +
			` -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"customer":"alice","amount_cents":1200}}}'`
	}
	one, two := f.proxies[0].URL(), f.proxies[1].URL()
	fmt.Fprint(stdout, strings.NewReplacer("{ONE}", one, "{TWO}", two, "{UPSTREAM}", server.URL(), "{CURL1}", curl(one), "{CURL2}", curl(two),
		"{PID}", fmt.Sprint(os.Getpid())).Replace(tryEtcd))
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			f.stop()
			if err := f.start(); err != nil {
				return err
			}
			fmt.Fprintln(stdout, "restarted")
		case <-f.etcd.Done():
			return fmt.Errorf("etcd ended by itself: %v", f.etcd.Wait())
		case <-f.proxies[0].Done():
			return fmt.Errorf("hostsim ended by itself: %v", f.proxies[0].Wait())
		case <-f.proxies[1].Done():
			return fmt.Errorf("hostsim ended by itself: %v", f.proxies[1].Wait())
		}
	}
}

// inEtcd writes a configuration that keeps its keys in etcd, and returns its file.
func inEtcd(file, dir string) (string, error) {
	if file == "" {
		root, err := tools.Root()
		if err != nil {
			return "", err
		}
		file = filepath.Join(root, "e2e", "testdata", "demo.json")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	config["store"] = map[string]any{"kind": "etcd", "cluster": "etcd", "timeout": "1s"}
	if text, err = json.Marshal(config); err != nil {
		return "", err
	}
	out := filepath.Join(dir, "config.json")
	return out, os.WriteFile(out, text, 0o600)
}

func (f *fleet) start() (err error) {
	f.etcd, err = child.Start("etcd", exec.Command(f.binary, "-data-dir", filepath.Join(f.dir, "data"), "-listen-client-urls", "http://"+f.addr), nil)
	if err != nil {
		return fmt.Errorf("%w (make run STORE=etcd builds it)", err)
	}
	ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
	defer cancel()
	if err := f.etcd.Await(ctx, child.Listening(f.addr)); err != nil {
		return err
	}
	for i := range f.proxies {
		o := f.opts
		o.Listen, o.More = f.listen[i], []string{"--cluster", "etcd=h2c://" + f.addr}
		if f.proxies[i], err = hostsimcmd.Start(f.ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) stop() {
	for _, p := range f.proxies {
		if p != nil {
			p.Stop()
		}
	}
	if f.etcd != nil {
		f.etcd.Stop()
	}
}
