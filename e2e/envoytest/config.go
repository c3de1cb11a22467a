package envoytest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/callonce/callonce/e2e/tools"
)

// Options say in what an Envoy differs from envoy/envoy.yaml.
type Options struct {
	// Plugin is the path of the compiled filter. Empty: no filter at all.
	Plugin string
	// Config is the filter's configuration, a JSON text. Empty: as in envoy.yaml.
	Config string
	// Upstream is the MCP server, "http://host:port" with host an IP address.
	Upstream string
	// Workers is the number of worker threads; 0 means 1.
	Workers int
	// NoHoldHeaders leaves allow_on_headers_stop_iteration off, as the resources of
	// Istio and Envoy Gateway do.
	NoHoldHeaders bool
	// Retries is how often the route repeats a request that got a 5xx or a reset.
	Retries int
}

// configuration returns envoy/envoy.yaml as the options want it, as JSON, with free
// ports and its access log in the file accessLog.
func configuration(opts Options, accessLog string) ([]byte, error) {
	root, err := tools.Root()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(root, "envoy", "envoy.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var top map[string]any
	if err := yaml.Unmarshal(text, &top); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	e := editor{top: top}
	e.ports()
	e.upstream(opts.Upstream)
	e.set(accessLog, append(manager, "access_log", 0, "typed_config", "path")...)
	e.retries(opts.Retries)
	e.filter(opts)
	if e.err != nil {
		return nil, fmt.Errorf("%s: %w", file, e.err)
	}
	return json.MarshalIndent(top, "", " ")
}

var (
	listener = []any{"static_resources", "listeners", 0}
	manager  = append(listener[:3:3], "filter_chains", 0, "filters", 0, "typed_config")
	filters  = append(manager[:len(manager):len(manager)], "http_filters")
	host     = append(manager[:len(manager):len(manager)], "route_config", "virtual_hosts", 0)
	server   = []any{"static_resources", "clusters", 0, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint", "address", "socket_address"}
)

// editor changes a configuration tree. After the first place that is not there it
// does nothing more, and err names that place.
type editor struct {
	top map[string]any
	err error
}

// at returns what stands at a path of member names and indices.
func (e *editor) at(path ...any) any {
	var node any = e.top
	for i, step := range path {
		var next any
		switch step := step.(type) {
		case string:
			m, _ := node.(map[string]any)
			next = m[step]
		case int:
			if list, _ := node.([]any); step < len(list) {
				next = list[step]
			}
		}
		if next == nil && e.err == nil {
			e.err = fmt.Errorf("want something at %v, found nothing", path[:i+1])
		}
		node = next
	}
	return node
}

// object returns the object at a path; a detached one after an error.
func (e *editor) object(path ...any) map[string]any {
	m, ok := e.at(path...).(map[string]any)
	if !ok {
		if e.err == nil {
			e.err = fmt.Errorf("want an object at %v, found something else", path)
		}
		return map[string]any{}
	}
	return m
}

// set replaces a value that is there.
func (e *editor) set(value any, path ...any) {
	e.at(path...)
	e.object(path[:len(path)-1]...)[path[len(path)-1].(string)] = value
}

func (e *editor) ports() {
	e.set(0, append(listener[:3:3], "address", "socket_address", "port_value")...)
	e.set(0, "admin", "address", "socket_address", "port_value")
}

func (e *editor) upstream(raw string) {
	u, err := url.Parse(raw)
	var port int
	if err == nil && net.ParseIP(u.Hostname()) != nil {
		port, err = strconv.Atoi(u.Port())
	}
	if port == 0 || err != nil || u.Scheme != "http" || (u.Path != "" && u.Path != "/") {
		if e.err == nil {
			e.err = fmt.Errorf("upstream: want http://IP:PORT, got %q", raw)
		}
		return
	}
	address := e.object(server...)
	address["address"], address["port_value"] = u.Hostname(), port
}

func (e *editor) retries(n int) {
	e.at(append(host, "retry_policy")...)
	h := e.object(host...)
	if n == 0 {
		delete(h, "retry_policy")
		return
	}
	h["retry_policy"] = map[string]any{"retry_on": "5xx", "num_retries": n}
}

func (e *editor) filter(opts Options) {
	list, _ := e.at(filters...).([]any)
	for i := range list {
		if e.at(append(filters, i, "name")...) != "callonce" {
			continue
		}
		if opts.Plugin == "" {
			e.set(append(list[:i:i], list[i+1:]...), filters...)
			return
		}
		path := append(filters[:len(filters):len(filters)], i, "typed_config", "config")
		e.plugin(opts, path)
		return
	}
	if e.err == nil {
		e.err = fmt.Errorf("want an HTTP filter named callonce, found none")
	}
}

func (e *editor) plugin(opts Options, path []any) {
	path = path[:len(path):len(path)]
	e.set(opts.Plugin, append(path, "vm_config", "code", "local", "filename")...)
	e.set(!opts.NoHoldHeaders, append(path, "allow_on_headers_stop_iteration")...)
	if opts.Config != "" {
		e.set(opts.Config, append(path, "configuration", "value")...)
	}
}
