// Package fleet runs two proxies, each a "callonce serve", over one etcd of its own. It knows nothing of what they decide.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/tools"
)

// Size is how many proxies there are.
const Size = 2

// Fleet is two proxies over one etcd.
type Fleet struct {
	opts    hostsimcmd.Options
	binary  string // of etcd
	dir     string // its data, and the configuration
	addr    string
	listen  [Size]string
	etcd    *child.Process
	proxies [Size]*hostsimcmd.Hostsim
}

// Start runs etcd (e2e/cmd/etcd, the file binary) and the proxies, as the options say but for Listen, with their keys in it. lease is that
// of each policy, such as "3s"; "" leaves the configuration's. ctx bounds the start.
func Start(ctx context.Context, opts hostsimcmd.Options, binary, lease string) (*Fleet, error) {
	dir, err := os.MkdirTemp("", "callonce-fleet-")
	if err != nil {
		return nil, err
	}
	f := &Fleet{opts: opts, binary: binary, dir: dir}
	if err := f.begin(ctx, lease); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Fleet) begin(ctx context.Context, lease string) (err error) {
	// Addresses are kept over a restart.
	for _, addr := range []*string{&f.addr, &f.listen[0], &f.listen[1]} {
		if *addr, err = child.FreeAddr(); err != nil {
			return err
		}
	}
	if f.opts.Config, err = inEtcd(f.opts.Config, f.dir, lease); err != nil {
		return err
	}
	return f.up(ctx)
}

// URL is where clients reach a proxy.
func (f *Fleet) URL(i int) string { return f.proxies[i].URL() }

// Kill ends a proxy at once.
func (f *Fleet) Kill(i int) error {
	if err := syscall.Kill(f.proxies[i].PID(), syscall.SIGKILL); err != nil {
		return err
	}
	<-f.proxies[i].Done()
	return nil
}

// Restart stops everything, and starts it on what etcd has on its disk.
func (f *Fleet) Restart(ctx context.Context) error {
	f.stop()
	return f.up(ctx)
}

// Ended gives an error once something has ended by itself, or ctx has; nil then.
func (f *Fleet) Ended(ctx context.Context, again <-chan os.Signal) error {
	select {
	case <-ctx.Done():
		return nil
	case <-again:
		return ErrAgain
	case <-f.etcd.Done():
		return fmt.Errorf("etcd ended by itself: %v", f.etcd.Wait())
	case <-f.proxies[0].Done():
		return fmt.Errorf("callonce serve ended by itself: %v", f.proxies[0].Wait())
	case <-f.proxies[1].Done():
		return fmt.Errorf("callonce serve ended by itself: %v", f.proxies[1].Wait())
	}
}

// ErrAgain says that a signal came.
var ErrAgain = errors.New("a signal came")

// Close stops everything, and removes etcd's data.
func (f *Fleet) Close() {
	f.stop()
	os.RemoveAll(f.dir)
}

// inEtcd writes a configuration that keeps its keys in etcd, and returns its file.
func inEtcd(file, dir, lease string) (string, error) {
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
	policies, _ := config["policies"].(map[string]any)
	for _, p := range policies {
		if p, ok := p.(map[string]any); ok && lease != "" {
			p["lease"] = lease
		}
	}
	if text, err = json.Marshal(config); err != nil {
		return "", err
	}
	out := filepath.Join(dir, "config.json")
	return out, os.WriteFile(out, text, 0o600)
}

func (f *Fleet) up(ctx context.Context) (err error) {
	f.etcd, err = child.Start("etcd", exec.Command(f.binary, "-data-dir", filepath.Join(f.dir, "data"), "-listen-client-urls", "http://"+f.addr), nil)
	if err != nil {
		return err
	}
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := f.etcd.Await(starting, child.Listening(f.addr)); err != nil {
		return err
	}
	for i := range f.proxies {
		o := f.opts
		o.Listen, o.More = f.listen[i], []string{"--cluster", "etcd=h2c://" + f.addr}
		if f.proxies[i], err = hostsimcmd.Start(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fleet) stop() {
	for _, p := range f.proxies {
		if p != nil {
			p.Stop()
		}
	}
	if f.etcd != nil {
		f.etcd.Stop()
	}
}
