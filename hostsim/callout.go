package hostsim

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/callonce/callonce/hostsim/internal/abi"
	"github.com/callonce/callonce/hostsim/internal/header"
	"github.com/callonce/callonce/hostsim/internal/upstream"
)

// callout is one proxy_http_call under way. Its answer goes to the plugin context, whether or not the stream that asked still exists;
// it is the SDK that keeps it from a stream that has gone.
type callout struct {
	vm      *vm
	root    *guestContext
	token   uint32
	x       upstream.Exchange
	stop    func()
	answer  calloutAnswer
	started bool
	over    bool
	sentAt  time.Duration
}

type calloutAnswer struct {
	headers, trailers *header.Map
	body              []byte
	reset             bool
}

// maxCalloutBody bounds what one answer may occupy.
const maxCalloutBody = 32 << 20

func (h *Host) openClusters() error {
	for name, raw := range h.config.Clusters {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" {
			u = &url.URL{}
		}
		switch u.Scheme {
		case "http", "https":
			h.clusters[name] = upstream.NewPool(u, calloutDialTimeout, maxCalloutBody, false)
		case "h2c":
			h.clusters[name] = upstream.NewHTTP2Pool(u, calloutDialTimeout, maxCalloutBody)
		default:
			return fmt.Errorf("cluster %q: want http://HOST:PORT, https://HOST:PORT, or h2c://HOST:PORT for HTTP/2, found %q", name, raw)
		}
	}
	for name, server := range h.config.Servers {
		if h.clusters[name] != nil {
			return fmt.Errorf("cluster %q has an address and a server in the test, want one of them", name)
		}
		h.clusters[name] = directCluster{directDialer{server}}
	}
	return nil
}

// cluster is where callouts go.
type cluster interface {
	upstream.Dialer
	Close()
}

type directCluster struct{ directDialer }

func (directCluster) Close() {}

const calloutDialTimeout = 5 * time.Second

func (v *vm) HTTPCall(cluster string, headers, trailers []Header, body []byte, timeout time.Duration) (uint32, Status) {
	pool := v.host.clusters[cluster]
	if pool == nil {
		return 0, StatusBadArgument
	}
	h := &header.Map{}
	for _, l := range headers {
		if l.Name == "host" {
			l.Name = ":authority"
		}
		h.Add(l.Name, l.Value)
	}
	if !h.Has(":path") || !h.Has(":method") || !h.Has(":authority") {
		return 0, StatusBadArgument
	}
	if len(body) > 0 {
		h.Set("content-length", strconv.Itoa(len(body)))
	}
	v.nextCall += abi.TokenStep
	c := &callout{vm: v, root: v.acting().root, token: v.nextCall, sentAt: v.host.clock.Mono()}
	v.callouts[c.token] = c
	c.begin(pool, h, body, trailers, timeout)
	return c.token, StatusOK
}

func (c *callout) begin(pool cluster, h *header.Map, body []byte, trailers []Header, timeout time.Duration) {
	post := func(f func()) {
		c.vm.loop.post("callout", func() {
			if !c.over {
				f()
			}
		})
	}
	end := len(body) == 0 && len(trailers) == 0
	c.x = pool.Dial(h, end, upstream.Events{
		Headers: func(h *header.Map, end bool) {
			post(func() {
				h.Set("x-envoy-upstream-service-time", strconv.FormatInt((c.vm.host.clock.Mono()-c.sentAt).Milliseconds(), 10))
				c.answer.headers, c.started = h, true
				if end {
					c.deliver()
				}
			})
		},
		Data: func(b []byte, end bool) {
			post(func() {
				c.x.Give(len(b))
				if c.answer.body = append(c.answer.body, b...); len(c.answer.body) > maxCalloutBody {
					c.answer = calloutAnswer{reset: true}
					end = true
				}
				if end {
					c.deliver()
				}
			})
		},
		Trailers: func(t *header.Map) { post(func() { c.answer.trailers = t; c.deliver() }) },
		Reset:    func(r upstream.Reset) { post(func() { c.failed(r) }) },
	})
	if !end {
		c.x.Send(slices.Clone(body), len(trailers) == 0, func() {})
	}
	if len(trailers) > 0 {
		c.x.SendTrailers(&header.Map{Lines: trailers})
	}
	if timeout > 0 {
		c.stop = c.vm.host.clock.AfterFunc(timeout, func() {
			post(func() { c.local(504, "upstream request timeout") })
		})
	}
}

// failed makes the answer that Envoy's own client makes: a 503 as long as nothing has come, nothing at all afterwards.
func (c *callout) failed(r upstream.Reset) {
	if c.started {
		c.answer = calloutAnswer{reset: true}
		c.deliver()
		return
	}
	c.local(r.Status, r.Text())
}

func (c *callout) local(status int, body string) {
	c.x.Cancel()
	c.answer = calloutAnswer{
		headers: &header.Map{Lines: []Header{{Name: ":status", Value: strconv.Itoa(status)}, {Name: "content-length", Value: strconv.Itoa(len(body))}, {Name: "content-type", Value: "text/plain"}}},
		body:    []byte(body),
	}
	c.deliver()
}

func (c *callout) deliver() {
	v := c.vm
	c.cancel()
	delete(v.callouts, c.token)
	if v.failed != nil || v.contexts[c.root.id] != c.root {
		return
	}
	c.root.answer = &c.answer
	v.call(c.root, "proxy_on_http_call_response", uint64(c.root.id), uint64(c.token),
		uint64(header.Count(c.answer.headers)), uint64(len(c.answer.body)), uint64(header.Count(c.answer.trailers)))
	if c.answer.reset {
		c.root.status = 0
	}
	c.root.answer = nil
	v.runDeferred()
}

// cancel keeps the answer from coming.
func (c *callout) cancel() {
	c.over = true
	if c.stop != nil {
		c.stop()
	}
	c.x.Cancel()
}
