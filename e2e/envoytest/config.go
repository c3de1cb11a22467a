package envoytest

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

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
	// IdleTimeout is stream_idle_timeout; 0 means as in envoy.yaml.
	IdleTimeout time.Duration
	// Changes lets [Envoy.Change] replace the filter while Envoy runs. Streams that are
	// open then go on for Drain, in whole seconds; 0 means a minute.
	Changes bool
	Drain   time.Duration
	// File is the configuration that is changed, below envoy/. Empty: envoy.yaml.
	File string
	// Dir is the folder from which relative names in the configuration are taken. Empty:
	// the current one.
	Dir string
	// Edit makes further changes, the last of all. May be nil.
	Edit func(*Tree)
}

// configuration returns the file as the options want it, with free ports and its access log in the file accessLog.
func configuration(opts Options, accessLog string) (*Tree, error) {
	root, err := tools.Root()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(root, "envoy", cmp.Or(opts.File, "envoy.yaml"))
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var top map[string]any
	if err := yaml.Unmarshal(text, &top); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	e := &Tree{top: top}
	e.ports()
	e.upstream(opts.Upstream)
	e.Set(accessLog, Manager.To("access_log", 0, "typed_config", "path")...)
	e.retries(opts.Retries)
	e.filter(opts)
	if opts.IdleTimeout > 0 {
		e.Set(fmt.Sprintf("%.3fs", opts.IdleTimeout.Seconds()), Manager.To("stream_idle_timeout")...)
	}
	if opts.Edit != nil {
		opts.Edit(e)
	}
	if e.err != nil {
		return nil, fmt.Errorf("%s: %w", file, e.err)
	}
	return e, nil
}

func (e *Tree) scheme() string {
	if e.Object(Chain...)["transport_socket"] != nil {
		return "https"
	}
	return "http"
}

// Path leads to a place in a configuration: names of members, indices of a list, and
// [Named] for the element of a list that has that name.
type Path []any

// Named is the name of a list's element.
type Named string

// To returns a longer path.
func (p Path) To(steps ...any) Path { return append(p[:len(p):len(p)], steps...) }

// Places that the configurations below envoy/ have in common.
var (
	Clusters = Path{"static_resources", "clusters"}
	Chain    = Path{"static_resources", "listeners", 0, "filter_chains", 0}
	Manager  = Chain.To("filters", 0, "typed_config")
	Filters  = Manager.To("http_filters")
	Host     = Manager.To("route_config", "virtual_hosts", 0)
	Plugin   = Filters.To(Named("callonce"), "typed_config", "config")

	server = Clusters.To(0, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint", "address", "socket_address")
)

// Tree is a configuration that is being changed. After the first place that is not
// there nothing more is changed, and the start fails with an error that names it.
type Tree struct {
	top map[string]any
	err error
}

// NewTree takes a configuration that was read elsewhere.
func NewTree(top map[string]any) *Tree { return &Tree{top: top} }

// At returns what stands at a path.
func (e *Tree) At(path ...any) any {
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
		case Named:
			list, _ := node.([]any)
			for _, element := range list {
				if m, _ := element.(map[string]any); m["name"] == string(step) {
					next = m
				}
			}
		}
		if next == nil && e.err == nil {
			e.err = fmt.Errorf("want something at %v, found nothing", path[:i+1])
		}
		node = next
	}
	return node
}

// Object returns the object at a path; a detached one after an error.
func (e *Tree) Object(path ...any) map[string]any {
	m, ok := e.At(path...).(map[string]any)
	if !ok {
		if e.err == nil {
			e.err = fmt.Errorf("want an object at %v, found something else", path)
		}
		return map[string]any{}
	}
	return m
}

// Set replaces a member that is there.
func (e *Tree) Set(value any, path ...any) {
	e.At(path...)
	e.Object(path[:len(path)-1]...)[path[len(path)-1].(string)] = value
}

// Remove removes a member that is there.
func (e *Tree) Remove(path ...any) {
	e.At(path...)
	delete(e.Object(path[:len(path)-1]...), path[len(path)-1].(string))
}

// Insert puts values before the elements of the list that is there.
func (e *Tree) Insert(values []any, path ...any) {
	list, _ := e.At(path...).([]any)
	e.Set(append(values[:len(values):len(values)], list...), path...)
}

// Cluster is a cluster named name with one server, "http://IP:PORT".
func (e *Tree) Cluster(name, raw string) map[string]any {
	ip, port := e.address(raw)
	return map[string]any{
		"name": name, "type": "STATIC", "connect_timeout": "1s",
		"typed_extension_protocol_options": map[string]any{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": map[string]any{
				"@type":                        "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
				"common_http_protocol_options": map[string]any{"idle_timeout": "4s"}, // as in envoy.yaml
				"explicit_http_config":         map[string]any{"http_protocol_options": map[string]any{}},
			}},
		"load_assignment": map[string]any{"cluster_name": name, "endpoints": []any{map[string]any{"lb_endpoints": []any{
			map[string]any{"endpoint": map[string]any{"address": map[string]any{
				"socket_address": map[string]any{"address": ip, "port_value": port}}}}}}}},
	}
}

// HTTP2 is a Cluster that speaks HTTP/2, as etcd wants it.
func (e *Tree) HTTP2(name, raw string) map[string]any {
	c := e.Cluster(name, raw)
	c["typed_extension_protocol_options"] = map[string]any{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": map[string]any{
			"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{}},
		}}
	return c
}

func (e *Tree) ports() {
	e.Set(0, "static_resources", "listeners", 0, "address", "socket_address", "port_value")
	e.Set(0, "admin", "address", "socket_address", "port_value")
}

func (e *Tree) address(raw string) (ip string, port int) {
	u, err := url.Parse(raw)
	if err == nil && net.ParseIP(u.Hostname()) != nil {
		port, err = strconv.Atoi(u.Port())
	}
	if port == 0 || err != nil || u.Scheme != "http" || (u.Path != "" && u.Path != "/") {
		if e.err == nil {
			e.err = fmt.Errorf("upstream: want http://IP:PORT, got %q", raw)
		}
		return "", 0
	}
	return u.Hostname(), port
}

func (e *Tree) upstream(raw string) {
	ip, port := e.address(raw)
	address := e.Object(server...)
	address["address"], address["port_value"] = ip, port
}

func (e *Tree) retries(n int) {
	e.At(Host.To("retry_policy")...)
	h := e.Object(Host...)
	if n == 0 {
		delete(h, "retry_policy")
		return
	}
	h["retry_policy"] = map[string]any{"retry_on": "5xx", "num_retries": n}
}

func (e *Tree) filter(opts Options) {
	e.At(Plugin...)
	if opts.Plugin == "" {
		list, _ := e.At(Filters...).([]any)
		e.Set(slices.DeleteFunc(slices.Clone(list), func(f any) bool {
			m, _ := f.(map[string]any)
			return m["name"] == "callonce"
		}), Filters...)
		return
	}
	e.Set(opts.Plugin, Plugin.To("vm_config", "code", "local", "filename")...)
	e.Set(!opts.NoHoldHeaders, Plugin.To("allow_on_headers_stop_iteration")...)
	if opts.Config != "" {
		e.Set(opts.Config, Plugin.To("configuration", "value")...)
	}
}
