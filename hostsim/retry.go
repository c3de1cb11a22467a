package hostsim

import (
	"strconv"
	"strings"
	"time"

	"github.com/callonce/callonce/hostsim/internal/flags"
	"github.com/callonce/callonce/hostsim/internal/header"
	"github.com/callonce/callonce/hostsim/internal/upstream"
)

// retryBackoff is Envoy's base interval between attempts, without its jitter.
const retryBackoff = 25 * time.Millisecond

// retryPolicy says when the host repeats a request by itself. The filter may have changed it through headers.
type retryPolicy struct {
	left               int
	on5xx, onGateway   bool
	onReset, onConnect bool
}

// controlHeaders steer the router and go no further.
var controlHeaders = []string{"x-envoy-max-retries", "x-envoy-retry-on", "x-envoy-retry-grpc-on", "x-envoy-upstream-rq-timeout-ms",
	"x-envoy-upstream-rq-per-try-timeout-ms", "x-envoy-hedge-on-per-try-timeout", "x-envoy-retriable-status-codes", "x-envoy-retriable-header-names"}

// takeRetryPolicy combines the route's retries (on 5xx, which includes resets) with the request's headers, and removes those.
func takeRetryPolicy(h *header.Map, routeRetries int) retryPolicy {
	p := retryPolicy{left: routeRetries, on5xx: routeRetries > 0}
	if on, ok := h.Get("x-envoy-retry-on"); ok {
		p.left = max(p.left, 1)
		for _, name := range strings.Split(on, ",") {
			switch strings.TrimSpace(name) {
			case "5xx":
				p.on5xx = true
			case "gateway-error":
				p.onGateway = true
			case "reset":
				p.onReset = true
			case "connect-failure":
				p.onConnect = true
			}
		}
	}
	if n, err := strconv.Atoi(h.Value("x-envoy-max-retries")); err == nil && n >= 0 && p.active() {
		p.left = n
	}
	for _, name := range controlHeaders {
		h.Remove(name)
	}
	return p
}

func (p *retryPolicy) active() bool { return p.on5xx || p.onGateway || p.onReset || p.onConnect }

func (p *retryPolicy) wantsStatus(status int) bool {
	return p.on5xx && status >= 500 || p.onGateway && status >= 502 && status <= 504
}

func (p *retryPolicy) wantsReset(r upstream.Reset) bool {
	return p.on5xx || p.onGateway || p.onReset || p.onConnect && r.Flag == flags.UpstreamConnectionFailure
}
