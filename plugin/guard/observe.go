package guard

import (
	"strings"

	"github.com/callonce/callonce/plugin/mcp"
)

// The outcomes of a decision, as label values.
const (
	outFirst         = "first"
	outReplay        = "replay"
	outConflict      = "conflict"
	outInFlight      = "in_flight"
	outUnknown       = "unknown_outcome"
	outNotReplayable = "not_replayable"
	outCapacity      = "capacity"
	outRejected      = "rejected"
	outUnavailable   = "unavailable"
)

// outcomes says which outcome each refusal counts as.
var outcomes = map[string]string{
	mcp.Unsupported.Type:      outRejected,
	mcp.KeyInvalid.Type:       outRejected,
	mcp.KeyRequired.Type:      outRejected,
	mcp.IdentityRequired.Type: outRejected,
	mcp.Conflict.Type:         outConflict,
	mcp.InFlight.Type:         outInFlight,
	mcp.OutcomeUnknown.Type:   outUnknown,
	mcp.NotReplayable.Type:    outNotReplayable,
	mcp.Capacity.Type:         outCapacity,
	mcp.Unavailable.Type:      outUnavailable,
}

// metric is one of the counters; label is the name of the label that varies.
type metric struct {
	name      string
	namespace bool
	label     string
}

var (
	decisions      = &metric{"mcp_gateway_idempotency_total", true, "outcome"}
	settlements    = &metric{"callonce_settled_total", false, "how"}
	strayKeys      = &metric{"callonce_stray_keys_total", false, ""}
	headersNotHeld = &metric{"callonce_headers_not_held_total", false, ""}
	meshRetriesOff = &metric{"callonce_mesh_retries_off_total", false, ""}
)

// counts makes each counter once. Label values come from configuration or from the
// fixed sets above, never from a request, so their number is bounded.
type counts struct {
	namespace string
	metrics   Metrics
	made      map[countKey]Counter
}

type countKey struct {
	metric        *metric
	server, value string
}

func newCounts(namespace string, m Metrics) counts {
	return counts{namespace, m, map[countKey]Counter{}}
}

func (c *counts) add(server string, m *metric, value string) {
	k := countKey{m, server, value}
	counter, ok := c.made[k]
	if !ok {
		counter = c.metrics.Counter(c.fullName(k))
		c.made[k] = counter
	}
	counter.Add(1)
}

// fullName spells labels as label=.=value;.; in front of the name, which the
// proxy's stats_tags take apart again (facts measured on Envoy 1.40).
func (c *counts) fullName(k countKey) string {
	var b strings.Builder
	label := func(name, value string) {
		b.WriteString(name)
		b.WriteString("=.=")
		b.WriteString(strings.ReplaceAll(value, ";.;", "_"))
		b.WriteString(";.;")
	}
	if k.metric.namespace {
		label("namespace", c.namespace)
	}
	if k.server != "" {
		label("server", k.server)
	}
	if k.metric.label != "" {
		label(k.metric.label, k.value)
	}
	b.WriteString(k.metric.name)
	return b.String()
}

// label is the server's name for metrics.
func (s *Stream) label() string {
	if s.call.server != "" {
		return s.call.server
	}
	if s.policy == misnamed {
		return misnamed.Name
	}
	return s.serverName()
}

// outcome counts a decision and publishes it.
func (s *Stream) outcome(o string) {
	s.g.counts.add(s.label(), decisions, o)
	s.host.SetState("callonce.outcome", o)
}
