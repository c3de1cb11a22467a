package hostsim

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim/internal/upstream"
)

// stage is where scenarios play: hostsim, or Envoy.
type stage interface {
	address() string
	upstream() *testServer
	// configure gives the plugin another configuration.
	configure(t *testing.T, config string)
	// peekRaw returns the lines that begin so, without that beginning.
	peekRaw(t *testing.T, prefix string) []string
	// peek returns the lines that the stream of that name has logged so far.
	peek(t *testing.T, name string) []string
	// lines waits until the stream of that name has ended, and returns its lines.
	lines(t *testing.T, name string) []string
}

type simStage struct{ r *rig }

func (s simStage) address() string                              { return s.r.address }
func (s simStage) upstream() *testServer                        { return s.r.up }
func (s simStage) peek(_ *testing.T, name string) []string      { return s.r.book.all(name + " ") }
func (s simStage) peekRaw(_ *testing.T, prefix string) []string { return s.r.book.all(prefix) }

// configure lets the module refuse: what it says of that is in its lines.
func (s simStage) configure(_ *testing.T, config string) {
	if err := s.r.host.Configure([]byte(config)); err != nil {
		s.r.book.add("refused")
	}
}

func (s simStage) lines(t *testing.T, name string) []string { return s.r.end(name) }

const (
	scenarioTimeout = 1500 * time.Millisecond
	scenarioIdle    = 2500 * time.Millisecond
	scenarioHeaders = 1 * time.Second
)

// simFor builds a host with the options that the scenario names; scenarios with equal options share one.
func simFor(t *testing.T, s *scenario) stage {
	r := newRig(t, func(c *Config, o *ProxyOptions) {
		c.HoldHeaders = s.acts[0].options["hold"] != "no"
		c.PluginConfig = []byte(scenarioConfig)
		c.FailReload = true
		c.Properties = map[string][]byte{
			"xds.route_name": []byte("theroute"), "xds.cluster_name": []byte("up"), "xds.virtual_host_name": []byte("vh"),
			"xds.route_metadata.filter_metadata.cc.policy": []byte("pay"),
		}
		o.Metadata = func(*http.Request) map[string]any { return scenarioMetadata }
		o.Trailers = s.acts[0].options["trailers"] == "yes"
		o.UpstreamHTTP2 = s.acts[0].options["upstream"] == "http2"
		o.ResponseTimeout, o.IdleTimeout, o.HeadersTimeout = scenarioTimeout, scenarioIdle, scenarioHeaders
	})
	if s.acts[0].options["upstream"] == "http2" {
		r.proxy.pool.Close() // that of the rig's own server
		r.proxy.pool = upstream.NewHTTP2Streams(&url.URL{Scheme: "http", Host: newHTTP2Upstream(t)}, r.proxy.opts.ConnectTimeout, r.host.config.BufferLimit)
	}
	if s.acts[0].path == "/dead" {
		// A second proxy on the same host leads nowhere.
		r.sendTo(deadAddress(t))
	}
	return simStage{r}
}

// scenarioMetadata is what the set_metadata filter leaves on Envoy. Its numbers are small integers: of all others Envoy's reader of
// YAML makes strings, which one of JSON Web Tokens does not (e2e, TestTypedClaims).
var scenarioMetadata = func() (all map[string]any) {
	if err := json.Unmarshal([]byte(scenarioMetadataText), &all); err != nil {
		panic(err)
	}
	return all
}()

const scenarioMetadataText = `{
	"claims": {"payload": {"text": "ada", "empty": "", "number": 42, "minus": -7, "yes": true, "no": false, "null": null,
		"list": ["a", 1, true], "none": [], "nothing": {}, "object": {"a": 1}, "holds": {"a": null}}},
	"one": {"n": 42}, "two": {"payload": {"list": ["a", 1, true, {"b": "c"}]}}}`

const scenarioConfig = "start register probe\nstart every 300\n"
