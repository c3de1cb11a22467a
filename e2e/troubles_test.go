package e2e_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/net/http2"

	"github.com/callonce/callonce/e2e/envoytest"
)

// trouble makes Envoy answer in a server's place: a route with a cluster of its own, and
// what differs in them.
type trouble struct {
	server  string         // the cluster's, "" = the cluster does not exist
	cluster map[string]any // members of the cluster
	route   map[string]any // members of the route's action
	reply   map[string]any // members of the route, in the action's place
	filters map[string]any // what the filters behind ours do on the route
	noRoute bool
	before  bool // a request must have gone before
	linux   bool // needs Linux
}

func ext(name string, more map[string]any) map[string]any {
	out := map[string]any{"@type": "type.googleapis.com/envoy.extensions." + name}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// http2only are the members of a cluster that speaks HTTP/2 to its servers.
var http2only = map[string]any{"typed_extension_protocol_options": map[string]any{
	"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": ext("upstreams.http.v3.HttpProtocolOptions",
		map[string]any{"explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{}}}),
}}

func troubles(t *testing.T) map[string]trouble {
	silent := scripted(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	quick := scripted(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) })
	breaker := func(what string) map[string]any {
		return map[string]any{"circuit_breakers": map[string]any{"thresholds": []any{map[string]any{what: 0}}}}
	}
	reset := func(code http2.ErrCode) trouble {
		return trouble{cluster: http2only, server: framed(t, func(f *http2.Framer, stream uint32) bool {
			return f.WriteRSTStream(stream, code) == nil
		})}
	}
	always := map[string]any{"default_value": map[string]any{"numerator": 100}}
	anything := []any{map[string]any{"any": true}}
	return map[string]trouble{
		"refused port": {server: closedPort(t)},
		"no TLS at the server": {server: silent, cluster: map[string]any{"transport_socket": map[string]any{
			"name": "tls", "typed_config": ext("transport_sockets.tls.v3.UpstreamTlsContext", nil)}}},
		"connection takes too long":              {server: fullBacklog(t), cluster: map[string]any{"connect_timeout": "0.3s"}, linux: true},
		"no connection before the answer is due": {server: fullBacklog(t), cluster: map[string]any{"connect_timeout": "30s"}, route: map[string]any{"timeout": "0.3s"}, linux: true},
		"no endpoint":                            {server: silent, cluster: map[string]any{"load_assignment": map[string]any{"cluster_name": "none"}}},
		"unknown cluster":                        {},
		"no route":                               {noRoute: true},
		"too many pending requests":              {server: silent, cluster: breaker("max_pending_requests")},
		"too many requests":                      {server: silent, cluster: breaker("max_requests")},
		"HTTP/2 REFUSED_STREAM":                  reset(http2.ErrCodeRefusedStream),
		"HTTP/2 CANCEL":                          reset(http2.ErrCodeCancel),
		"HTTP/2 INTERNAL_ERROR":                  reset(http2.ErrCodeInternal),
		"HTTP/2 connection closed":               {cluster: http2only, server: framed(t, func(*http2.Framer, uint32) bool { return false })},
		"HTTP/2 GOAWAY before this stream": {cluster: http2only, server: framed(t, func(f *http2.Framer, _ uint32) bool {
			return f.WriteGoAway(0, http2.ErrCodeNo, nil) == nil
		})},
		"direct response": {reply: map[string]any{"direct_response": map[string]any{"status": 503}}},
		"rate limit behind": {server: quick, before: true, filters: map[string]any{"limit": ext("filters.http.local_ratelimit.v3.LocalRateLimit", map[string]any{
			"stat_prefix": "limit", "filter_enabled": always, "filter_enforced": always,
			"token_bucket": map[string]any{"max_tokens": 1, "tokens_per_fill": 1, "fill_interval": "3600s"}})}},
		"fault filter behind": {server: quick, filters: map[string]any{"fault": ext("filters.http.fault.v3.HTTPFault", map[string]any{
			"abort": map[string]any{"http_status": 503, "percentage": map[string]any{"numerator": 100}}})}},
		"rbac filter behind": {server: quick, filters: map[string]any{"rbac": ext("filters.http.rbac.v3.RBACPerRoute", map[string]any{
			"rbac": map[string]any{"rules": map[string]any{"action": "DENY", "policies": map[string]any{
				"nobody": map[string]any{"permissions": anything, "principals": anything}}}}})}},
		"connection closed": {server: scripted(t, func(w http.ResponseWriter, r *http.Request) { hijacked(w, func(*net.TCPConn) {}) })},
		"connection reset":  {server: scripted(t, func(w http.ResponseWriter, r *http.Request) { hijacked(w, func(c *net.TCPConn) { _ = c.SetLinger(0) }) })},
		"nonsense": {server: scripted(t, func(w http.ResponseWriter, r *http.Request) {
			hijacked(w, func(c *net.TCPConn) { _, _ = io.WriteString(c, "nonsense\r\n\r\n") })
		})},
		"no answer":            {server: silent, route: map[string]any{"timeout": "0.2s"}},
		"no answer to one try": {server: silent, route: map[string]any{"retry_policy": map[string]any{"retry_on": "5xx", "per_try_timeout": "0.2s"}}},
		"stream too long":      {server: silent, route: map[string]any{"max_stream_duration": map[string]any{"max_stream_duration": "0.2s"}}},
		"stream idle":          {server: silent, route: map[string]any{"idle_timeout": "0.2s"}},
	}
}

// layTroubles gives each trouble a route, taken by the header X-Trouble, and a cluster of
// its name, and puts behind the filter those that may answer in the server's place.
func layTroubles(tree *envoytest.Tree, troubles map[string]trouble, retries bool) {
	var routes []any
	for name, trouble := range troubles {
		if trouble.noRoute {
			continue
		}
		action := map[string]any{"cluster": name, "timeout": "20s"}
		route := map[string]any{
			"match": map[string]any{"prefix": "/", "headers": []any{map[string]any{"name": "x-trouble", "string_match": map[string]any{"exact": name}}}},
			"route": action,
		}
		if trouble.reply != nil {
			delete(route, "route")
		}
		merge(route, trouble.reply)
		merge(action, trouble.route)
		if trouble.filters != nil {
			route["typed_per_filter_config"] = trouble.filters
		}
		routes = append(routes, route)
		if trouble.server != "" {
			cluster := tree.Cluster(name, trouble.server)
			merge(cluster, trouble.cluster)
			if assignment, ok := trouble.cluster["load_assignment"].(map[string]any); ok {
				assignment["cluster_name"] = name
			}
			tree.Insert([]any{cluster}, envoytest.Clusters...)
		}
	}
	tree.Set(routes, envoytest.Host.To("routes")...)
	tree.Object(envoytest.Manager.To("route_config")...)["validate_clusters"] = false
	if retries {
		tree.Object(envoytest.Host...)["retry_policy"] = map[string]any{"retry_on": "5xx,reset,connect-failure,refused-stream", "num_retries": 2}
	}
	behind := []any{
		map[string]any{"name": "limit", "typed_config": ext("filters.http.local_ratelimit.v3.LocalRateLimit", map[string]any{"stat_prefix": "limit"})},
		map[string]any{"name": "fault", "typed_config": ext("filters.http.fault.v3.HTTPFault", nil)},
		map[string]any{"name": "rbac", "typed_config": ext("filters.http.rbac.v3.RBAC", nil)},
	}
	filters, _ := tree.At(envoytest.Filters...).([]any)
	last := len(filters) - 1 // the router
	tree.Set(append(append(filters[:last:last], behind...), filters[last]), envoytest.Filters...)
}

func merge(into, more map[string]any) {
	for name, value := range more {
		into[name] = value
	}
}

// scripted is a server that reads each request whole, then does as it is told.
func scripted(t *testing.T, answer http.HandlerFunc) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			answer(w, r)
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// hijacked closes the connection under an answer, after last.
func hijacked(w http.ResponseWriter, last func(*net.TCPConn)) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	last(c.(*net.TCPConn))
	_ = c.Close()
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	return "http://" + l.Addr().String()
}

// framed is a server of unencrypted HTTP/2 that answers the end of a request with
// frames; false closes the connection.
func framed(t *testing.T, answer func(f *http2.Framer, stream uint32) bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = serveFrames(c, answer)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

var errEnough = errors.New("the server closes the connection")

func serveFrames(c net.Conn, answer func(f *http2.Framer, stream uint32) bool) error {
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return err
	}
	f := http2.NewFramer(c, c)
	if err := f.WriteSettings(); err != nil {
		return err
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		if settings, ok := frame.(*http2.SettingsFrame); ok && !settings.IsAck() {
			if err := f.WriteSettingsAck(); err != nil {
				return err
			}
		}
		head := frame.Header()
		ends := (head.Type == http2.FrameData || head.Type == http2.FrameHeaders) && head.Flags.Has(http2.FlagDataEndStream)
		if ends && !answer(f, head.StreamID) {
			return errEnough
		}
	}
}
