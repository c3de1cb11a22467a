package hostsim

import (
	"testing"

	"github.com/callonce/callonce/hostsim/internal/flags"
	"github.com/callonce/callonce/hostsim/internal/header"
	"github.com/callonce/callonce/hostsim/internal/upstream"
)

// What a request asks of the router's retries, beside those of the route, and what of it stays in the request: nothing.
func TestRetryPolicy(t *testing.T) {
	type wants struct{ s500, s502, s504, s505, reset, connect bool }
	for _, c := range []struct {
		route     int
		on, times string
		left      int
		wants
	}{
		{0, "", "", 0, wants{}},
		{2, "", "", 2, wants{true, true, true, true, true, true}},
		{2, "", "0", 0, wants{true, true, true, true, true, true}},
		{2, "", "3", 3, wants{true, true, true, true, true, true}},
		{2, "", "-1", 2, wants{true, true, true, true, true, true}},
		{2, "", "many", 2, wants{true, true, true, true, true, true}},
		{0, "", "3", 0, wants{}}, // there is nothing to retry on
		{0, "5xx", "", 1, wants{true, true, true, true, true, true}},
		{0, "gateway-error", "", 1, wants{false, true, true, false, true, true}},
		{0, "reset", "", 1, wants{reset: true, connect: true}},
		{0, "connect-failure", "", 1, wants{connect: true}},
		{0, "connect-failure", "4", 4, wants{connect: true}},
		{0, "another, reset", "", 1, wants{reset: true, connect: true}},
		{0, "another", "4", 1, wants{}},
		{3, "reset", "", 3, wants{true, true, true, true, true, true}},
	} {
		h := &header.Map{}
		h.Add("x-envoy-retry-on", c.on)
		if c.on == "" {
			h.Remove("x-envoy-retry-on")
		}
		if c.times != "" {
			h.Add("x-envoy-max-retries", c.times)
		}
		h.Add("x-envoy-upstream-rq-timeout-ms", "1")
		h.Add("x-other", "stays")
		p := takeRetryPolicy(h, c.route)
		got := wants{p.wantsStatus(500), p.wantsStatus(502), p.wantsStatus(504), p.wantsStatus(505),
			p.wantsReset(upstream.Reset{Flag: flags.UpstreamConnectionTermination}), p.wantsReset(upstream.Reset{Flag: flags.UpstreamConnectionFailure})}
		if p.left != c.left || got != c.wants || p.wantsStatus(499) {
			t.Errorf("route %d, on %q, times %q: %d tries, %+v, want %d, %+v", c.route, c.on, c.times, p.left, got, c.left, c.wants)
		}
		if len(h.Lines) != 1 || h.Value("x-other") != "stays" {
			t.Errorf("route %d, on %q, times %q: %v goes on", c.route, c.on, c.times, h.Lines)
		}
	}
}
