// Package hostsimcmd runs "callonce serve": the filter under the host simulator, as a
// reverse proxy in front of an MCP server. It knows nothing of what the filter decides.
package hostsimcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/tools"
)

// startTimeout bounds the start. Compiling the filter takes some ten seconds, and
// more on a slow machine, unless a compiled form of it is kept from before.
const startTimeout = 5 * time.Minute

// Options say what is run and where. Empty paths mean what "make build" leaves in
// dist/, and the configuration of the demo.
type Options struct {
	// Binary is the path of the command callonce, Plugin that of the compiled filter, Config that
	// of its configuration.
	Binary, Plugin, Config string
	// Listen is the host:port to serve at; empty takes a free port.
	Listen string
	// Upstream is the MCP server, "http://host:port".
	Upstream string
	// Workers is the number of worker VMs; 0 means 2.
	Workers int
	// More are further flags: --route NAME, --metadata KEY=VALUE, --property PATH=VALUE.
	More []string
	// Echo takes what it prints: its progress and its access log. May be nil.
	Echo io.Writer
}

// Hostsim is a running "callonce serve".
type Hostsim struct {
	*child.Process
	url, config string
}

// Start runs it and returns when it serves. ctx bounds the start,
// and so do five minutes. An error holds what was printed.
func Start(ctx context.Context, opts Options) (*Hostsim, error) {
	if err := opts.fill(); err != nil {
		return nil, err
	}
	cmd := exec.Command(opts.Binary, append([]string{"serve",
		"--plugin", opts.Plugin,
		"--config", opts.Config,
		"--listen", opts.Listen,
		"--workers", strconv.Itoa(opts.Workers),
		"--upstream", opts.Upstream}, opts.More...)...)
	process, err := child.Start("callonce", cmd, opts.Echo)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	h := &Hostsim{Process: process, config: opts.Config}
	if err := process.Await(ctx, h.listening); err != nil {
		process.Stop()
		return nil, err
	}
	return h, nil
}

// listeningLine is what is printed when it serves. That it takes connections says
// less: it does so while it still compiles.
var listeningLine = regexp.MustCompile(`(?m)^listening on (http://[^ ,]+),`)

func (h *Hostsim) listening() error {
	found := listeningLine.FindStringSubmatch(h.Output())
	if found == nil {
		return errors.New(`no line "listening on http://…" yet`)
	}
	h.url = found[1]
	return nil
}

func (o *Options) fill() error {
	root, err := tools.Root()
	if err != nil {
		return err
	}
	for _, file := range []struct {
		path *string
		def  string
		what string
	}{
		{&o.Binary, "dist/callonce", "the command callonce (make build makes it)"},
		{&o.Plugin, "dist/callonce.wasm", "the compiled filter (make build makes it)"},
		{&o.Config, "e2e/testdata/demo.json", "the filter's configuration"},
	} {
		if *file.path == "" {
			*file.path = filepath.Join(root, file.def)
		}
		if _, err := os.Stat(*file.path); err != nil {
			return fmt.Errorf("want %s: %w", file.what, err)
		}
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Workers == 0 {
		o.Workers = 2
	}
	return nil
}

var adminLine = regexp.MustCompile(`(?m)^admin on (http://[^ ]+):`)

// Page is where a browser sees requests as they come, "" where the options have no --admin.
func (h *Hostsim) Page() string {
	if found := adminLine.FindStringSubmatch(h.Output()); found != nil {
		return found[1] + "/"
	}
	return ""
}

// URL is where clients reach it: "http://host:port" without a slash at its end.
func (h *Hostsim) URL() string { return h.url }

// Config is the file of the filter's configuration, also where the options name none.
func (h *Hostsim) Config() string { return h.config }
