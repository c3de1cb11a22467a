package serve

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// drainPatience is how long a stop waits for streams that are still open.
const drainPatience = 5 * time.Second

type serveFlags struct {
	plugin, config, listen, upstream, cache string
	route, vmID, name, rootID               string
	faults, admin                           string
	workers                                 int
	noHold, quiet, trailers                 bool
	idle, timeout                           time.Duration
	metadata, properties, clusters          pairs
	logFields                               pairs
}

// pairs collects a repeatable flag of the form KEY=VALUE.
type pairs [][2]string

func (p *pairs) String() string { return "" }

func (p *pairs) Set(s string) error {
	k, v, ok := strings.Cut(s, "=")
	if !ok || k == "" {
		return fmt.Errorf("want KEY=VALUE, found %q", s)
	}
	*p = append(*p, [2]string{k, v})
	return nil
}

func newFlagSet(name, synopsis string, stderr io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "%s\n\nFlags:\n", synopsis)
		fs.PrintDefaults()
	}
	return fs
}

func parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w: %v", errUsage, err)
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%w: unexpected argument %q%s", errUsage, fs.Arg(0), hint(fs, fs.Arg(0)))
	}
	return nil
}

// hint guesses which flag's name was left out.
func hint(fs *flag.FlagSet, arg string) string {
	name := "config"
	switch {
	case strings.HasSuffix(arg, ".wasm"):
		name = "plugin"
	case strings.HasPrefix(arg, "http://"), strings.HasPrefix(arg, "https://"):
		name = "upstream"
	}
	if f := fs.Lookup(name); f == nil || f.Value.String() != "" {
		return ""
	}
	return fmt.Sprintf(": did you mean --%s %s?", name, arg)
}

func (c *Command) parseServe(args []string, stderr io.Writer) (*serveFlags, *url.URL, error) {
	f := &serveFlags{}
	fs := newFlagSet(c.Name+" serve", c.serveSynopsis(), stderr)
	about := "`FILE` of the compiled filter"
	if c.Plugin != nil {
		about += "; none = the one that lies beside this command"
	}
	fs.StringVar(&f.plugin, "plugin", "", about)
	fs.StringVar(&f.config, "config", "", "`FILE` handed to the filter as its configuration; none = an empty one")
	fs.StringVar(&f.listen, "listen", "127.0.0.1:0", "`HOST:PORT` to listen on; port 0 = any free one, which is printed")
	fs.StringVar(&f.upstream, "upstream", "", "`URL` of the server behind: http://HOST:PORT or https://HOST")
	fs.IntVar(&f.workers, "workers", 2, "`N` worker threads, each with a VM of its own")
	fs.StringVar(&f.route, "route", "", "`NAME` of the route, as the property xds.route_name")
	fs.StringVar(&f.vmID, "vm-id", "", "`ID` of the table of shared data")
	fs.StringVar(&f.name, "name", "", "`NAME` of the plugin, as the property plugin_name")
	fs.Var(&f.metadata, "metadata", "`KEY=VALUE` of the route's metadata, KEY being FILTER.NAME (repeatable)")
	fs.Var(&f.properties, "property", "`PATH=VALUE` of any property, its path joined with dots (repeatable)")
	fs.Var(&f.clusters, "cluster", "`NAME=URL` for the filter's own HTTP calls (repeatable)")
	fs.StringVar(&f.cache, "cache", defaultCache(), "`DIR` that keeps compiled code for the next start; \"\" = none")
	fs.BoolVar(&f.noHold, "no-hold-headers", false, "behave as a mesh where a filter cannot hold the headers while it reads the body")
	fs.BoolVar(&f.quiet, "quiet", false, "no access log")
	fs.Var(&f.logFields, "log-field", "`NAME=wasm.STATE`: a field of the access log, of the filter state that the filter calls STATE (repeatable)")
	fs.BoolVar(&f.trailers, "trailers", false, "pass HTTP/1.1 trailers on rather than drop them")
	fs.StringVar(&f.rootID, "root-id", "", "`ID` of the plugin's root, as the property plugin_root_id")
	fs.DurationVar(&f.idle, "idle-timeout", 5*time.Minute, "end a stream on which nothing has moved for so long; 0 = never")
	fs.DurationVar(&f.timeout, "timeout", 0, "answer 504 when a response has not ended so long after its request; 0 = never")
	fs.StringVar(&f.faults, "faults", "", "`FILE` of what goes wrong at the server, with clients and with workers (see below)")
	fs.StringVar(&f.admin, "admin", "", "`HOST:PORT` that answers / (a page of requests as they come), /metrics (Prometheus' text format) and /ready; \"\" = none")
	usage := fs.Usage
	fs.Usage = func() { usage(); fmt.Fprintf(fs.Output(), "\n%s\n", c.faultHelp()) }
	if err := parse(fs, args); err != nil {
		return nil, nil, err
	}
	switch {
	case c.Plugin == nil && (f.plugin == "" || f.upstream == ""):
		return nil, nil, fmt.Errorf("%w: serve needs --plugin and --upstream", errUsage)
	case f.upstream == "":
		return nil, nil, fmt.Errorf("%w: serve needs --upstream", errUsage)
	}
	for _, field := range f.logFields {
		if state, ok := strings.CutPrefix(field[1], stateSpace); !ok || state == "" {
			return nil, nil, fmt.Errorf("%w: --log-field: want NAME=%sSTATE, found %q", errUsage, stateSpace, field[0]+"="+field[1])
		}
	}
	if f.workers < 1 {
		return nil, nil, fmt.Errorf("%w: --workers: want 1 or more, found %d", errUsage, f.workers)
	}
	u, err := url.Parse(f.upstream)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, nil, fmt.Errorf("%w: --upstream: want http://HOST:PORT or https://HOST, found %q", errUsage, f.upstream)
	}
	if u.Path != "" && u.Path != "/" {
		return nil, nil, fmt.Errorf("%w: --upstream: a path (%q) has no effect, paths are passed on as they come", errUsage, u.Path)
	}
	return f, u, nil
}

// defaultCache is "" where the user has no cache folder: then nothing is kept.
func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "hostsim")
}

func (c *Command) serve(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f, upstream, err := c.parseServe(args, stderr)
	if err != nil {
		return err
	}
	if f.plugin == "" {
		if f.plugin, err = c.Plugin(); err != nil {
			return fmt.Errorf("--plugin: %w", err)
		}
	}
	config, err := f.hostConfig()
	if err != nil {
		return err
	}
	rules, err := f.readFaultsFile(c.Matchers)
	if err != nil {
		return err
	}
	log := &pluginLog{w: stderr, said: map[string]bool{}}
	config.Log = log.line
	l, err := listen("--listen", f.listen)
	if err != nil {
		return err
	}
	defer l.Close()
	h, err := start(ctx, config, f.plugin, stderr)
	if errors.Is(err, errStopped) {
		fmt.Fprintln(stderr, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.plugin, withoutPrinted(err))
	}
	defer h.Close()
	log.allStarted()
	o := hostsim.ProxyOptions{IdleTimeout: f.idle, ResponseTimeout: f.timeout, Trailers: f.trailers}
	if !f.quiet {
		o.AccessLog = accessLog(stdout, c.logFields(f.logFields))
	}
	a := &admin{}
	if f.admin != "" {
		a.recent = &recent{fields: append(c.logFields(f.logFields), c.PageFields...), tones: c.Tones, example: c.Example}
		line := o.AccessLog
		o.AccessLog = func(r hostsim.Record) {
			if line != nil {
				line(r)
			}
			a.recent.add(r)
		}
	}
	var faulty *faultServer
	if rules != nil {
		faulty = newFaultServer(rules, c.Matchers, upstream, h, stderr)
		address, stop, err := listenAndServe("--faults", "127.0.0.1:0", faulty)
		if err != nil {
			return err
		}
		defer stop()
		o.Pick, upstream = pick, &url.URL{Scheme: "http", Host: address}
	}
	p := hostsim.NewProxy(h, upstream, o)
	if faulty != nil {
		p.Wrap(faulty.front)
	}
	a.store = h.Store()
	if a.recent != nil && c.Page != nil {
		a.own = c.Page(h, config.PluginConfig)
		a.recent.own = a.own != nil
	}
	if f.admin != "" {
		address, stop, err := listenAndServe("--admin", f.admin, a)
		if err != nil {
			return err
		}
		defer stop()
		fmt.Fprintf(stderr, "admin on http://%s: a page of requests as they come, /metrics, /ready\n", address)
	}
	fmt.Fprintf(stderr, "listening on http://%s, upstream %s, %d workers\n", l.Addr(), f.upstream, f.workers)
	served := make(chan error, 1)
	go func() { served <- p.Serve(l) }()
	a.ready.Store(true)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	a.ready.Store(false)
	fmt.Fprintf(stderr, "stopping: open streams have %v to end; a second signal ends at once\n", drainPatience)
	drain, cancel := context.WithTimeout(context.Background(), drainPatience)
	defer cancel()
	if err := p.Shutdown(drain); errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintln(stderr, "streams still open were cut")
	}
	return nil
}

// readFaultsFile is nil, without an error, when no file is named.
func (f *serveFlags) readFaultsFile(matchers []Matcher) ([]*faultRule, error) {
	if f.faults == "" {
		return nil, nil
	}
	b, err := os.ReadFile(f.faults)
	if err != nil {
		return nil, fmt.Errorf("--faults: %w", err)
	}
	rules, err := readFaults(b, matchers)
	if err != nil {
		return nil, fmt.Errorf("--faults %s:\n%w", f.faults, err)
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("--faults %s: want at least one rule, found an empty list", f.faults)
	}
	return rules, nil
}

// hostConfig reads the files that the flags name.
func (f *serveFlags) hostConfig() (hostsim.Config, error) {
	c := hostsim.Config{
		Workers: f.workers, HoldHeaders: !f.noHold, VMID: f.vmID, PluginName: f.name, RootID: f.rootID, FailReload: true,
		Properties: map[string][]byte{}, Clusters: map[string]string{},
	}
	var err error
	if c.Wasm, err = os.ReadFile(f.plugin); err != nil {
		return c, fmt.Errorf("--plugin: %w", err)
	}
	if f.config != "" {
		if c.PluginConfig, err = os.ReadFile(f.config); err != nil {
			return c, fmt.Errorf("--config: %w", err)
		}
	}
	if f.cache != "" {
		if err := os.MkdirAll(f.cache, 0o755); err != nil {
			return c, fmt.Errorf("--cache: %w", err)
		}
		c.CacheDir = f.cache
	}
	if f.route != "" {
		c.Properties["xds.route_name"] = []byte(f.route)
	}
	for _, m := range f.metadata {
		c.Properties["xds.route_metadata.filter_metadata."+m[0]] = []byte(m[1])
	}
	for _, p := range f.properties {
		c.Properties[p[0]] = []byte(p[1])
	}
	for _, p := range f.clusters {
		c.Clusters[p[0]] = p[1]
	}
	// A filter may call the server by itself, at the cluster that the route has chosen.
	if f.upstream != "" && c.Properties["xds.cluster_name"] == nil && c.Clusters["upstream"] == "" {
		c.Properties["xds.cluster_name"], c.Clusters["upstream"] = []byte("upstream"), f.upstream
	}
	return c, nil
}

// start makes the host, and tells what takes the time if it takes any.
func start(ctx context.Context, c hostsim.Config, plugin string, stderr io.Writer) (*hostsim.Host, error) {
	began := time.Now()
	slow := time.AfterFunc(500*time.Millisecond, func() {
		note := "with --cache the next start is quick"
		if c.CacheDir != "" {
			note = "cached for the next start"
		}
		fmt.Fprintf(stderr, "compiling %s …, %s\n", filepath.Base(plugin), note)
	})
	defer slow.Stop()
	h, err := newHost(ctx, c)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(stderr, "%s started in %d ms\n", filepath.Base(plugin), time.Since(began).Milliseconds())
	return h, nil
}

var errStopped = errors.New("stopped before the filter had started")

// newHost returns when ctx ends, though what compiles goes on until it is done.
func newHost(ctx context.Context, c hostsim.Config) (h *hostsim.Host, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		h, err = hostsim.New(ctx, c)
	}()
	select {
	case <-done:
		return h, err
	case <-ctx.Done():
		go func() {
			if <-done; h != nil {
				h.Close()
			}
		}()
		return nil, errStopped
	}
}

// withoutPrinted takes out of a refusal the lines that the filter's log has shown already.
func withoutPrinted(err error) error {
	var refused *hostsim.StartError
	if errors.As(err, &refused) {
		refused.Lines = slices.DeleteFunc(refused.Lines, func(l hostsim.LogLine) bool { return l.Level >= hostsim.LogInfo })
	}
	return err
}

// pluginLog prints what the filter says from info on. While VMs start, what several of them say is printed once.
type pluginLog struct {
	w       io.Writer
	mu      sync.Mutex
	said    map[string]bool
	started bool
}

func (p *pluginLog) line(_ int, level hostsim.LogLevel, msg string) {
	if level < hostsim.LogInfo {
		return
	}
	line := fmt.Sprintf("filter %s: %s", level, msg)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started && p.said[line] {
		return
	}
	if !p.started {
		p.said[line] = true
	}
	fmt.Fprintln(p.w, line)
}

func (p *pluginLog) allStarted() {
	p.mu.Lock()
	p.started, p.said = true, nil
	p.mu.Unlock()
}
