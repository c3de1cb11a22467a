package guard

import (
	"strings"

	"github.com/callonce/callonce/plugin/internal/mcp"
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
	outForwarded     = "forwarded"
)

// modeObserve is the mode of a policy that enforces nothing, as published.
const modeObserve = "observe"

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

// metric is one of the counters or gauges; labels name what varies beside
// namespace and server, in the order of a key's values.
type metric struct {
	name   string
	labels []string
}

var (
	decisions          = &metric{"mcp_gateway_idempotency_total", []string{"outcome"}}
	toolCalls          = &metric{"callonce_tool_calls_total", []string{"tool", "outcome"}}
	settlements        = &metric{"callonce_settled_total", []string{"how"}}
	evictions          = &metric{"callonce_evicted_total", nil}
	shed               = &metric{"callonce_replies_shed_total", nil}
	strayKeys          = &metric{"callonce_stray_keys_total", nil}
	duplicates         = &metric{"callonce_duplicates_total", []string{"tool", "source"}}
	refusals           = &metric{"callonce_refusals_total", []string{"reason"}}
	completedErrors    = &metric{"callonce_completed_errors_total", []string{"tool", "how"}}
	meshRetriesOff     = &metric{"callonce_mesh_retries_off_total", nil}
	headersNotBuffered = &metric{"callonce_headers_not_held_total", nil}
	ambiguous          = &metric{"callonce_ambiguous_total", nil}
	bucketsFull        = &metric{"callonce_buckets_full_total", nil}
	claimedAhead       = &metric{"callonce_claimed_ahead_total", nil}
	foreignBytes       = &metric{"callonce_foreign_records_total", nil}
	advertsLeftOut     = &metric{"callonce_adverts_left_out_total", nil}
	waitsEnded         = &metric{"callonce_waits_total", []string{"how"}}
	detachedEnded      = &metric{"callonce_detached_total", []string{"how"}}
	hintsHeard         = &metric{"callonce_hints_total", []string{"how"}}

	detachedNow     = &metric{"callonce_detached", nil}
	waitingNow      = &metric{"callonce_waiting", nil}
	entries         = &metric{"callonce_entries", []string{"state"}}
	replyBytes      = &metric{"callonce_reply_bytes", nil}
	youngestEvicted = &metric{"callonce_youngest_evicted_seconds", nil}
)

// late reports whether a counter is told at the next tick: those of which a call counts one beside its decision.
func (m *metric) late() bool {
	return m == toolCalls || m == settlements || m == duplicates || m == refusals || m == meshRetriesOff
}

// counts makes each metric once. Label values come from configuration or from the
// fixed sets above, never from a request, so their number is bounded.
type counts struct {
	namespace string
	metrics   Metrics
	counters  map[countKey]*tally
	untold    []*tally // that have counted since the last tick
	gauges    map[countKey]Gauge
	latest    [latestCounters]latestCounter
	next      int // which of them goes first
}

// latestCounter is a counter that was asked for not long ago. A request counts in a few,
// mostly the same, and hashing a key of four strings costs more than to look at all.
type latestCounter struct {
	key     countKey
	counter *tally
}

// tally is a counter, and what it has not been told yet. That is lost where the worker's VM dies first.
type tally struct {
	counter Counter
	untold  uint64
}

const latestCounters = 12

type countKey struct {
	metric *metric
	server string
	values [2]string
}

func newCounts(namespace string, m Metrics) counts {
	return counts{namespace: namespace, metrics: m, counters: map[countKey]*tally{}, gauges: map[countKey]Gauge{}}
}

func keyOf(server string, m *metric, values []string) countKey {
	k := countKey{metric: m, server: server}
	copy(k.values[:], values)
	return k
}

func (c *counts) add(server string, m *metric, values ...string) {
	k := keyOf(server, m, values)
	for i := range c.latest {
		if l := &c.latest[i]; l.key.metric == m && l.key.values == k.values && l.key.server == server {
			c.count(l.counter, m)
			return
		}
	}
	counter, ok := c.counters[k]
	if !ok {
		counter = &tally{counter: c.metrics.Counter(c.fullName(k))}
		c.counters[k] = counter
	}
	c.latest[c.next] = latestCounter{k, counter}
	c.next = (c.next + 1) % latestCounters
	c.count(counter, m)
}

func (c *counts) count(n *tally, m *metric) {
	if !m.late() {
		n.counter.Add(1)
		return
	}
	if n.untold == 0 {
		c.untold = append(c.untold, n)
	}
	n.untold++
}

// tell tells the proxy what was counted since the last tick.
func (c *counts) tell() {
	for _, n := range c.untold {
		n.counter.Add(n.untold)
		n.untold = 0
	}
	c.untold = c.untold[:0]
}

func (c *counts) gauge(server string, m *metric, values ...string) Gauge {
	k := keyOf(server, m, values)
	gauge, ok := c.gauges[k]
	if !ok {
		gauge = c.metrics.Gauge(c.fullName(k))
		c.gauges[k] = gauge
	}
	return gauge
}

// fullName spells labels as label=.=value;.; in front of the name, which the
// proxy's stats_tags take apart again (docs/facts.md).
func (c *counts) fullName(k countKey) string {
	var b strings.Builder
	label := func(name, value string) {
		b.WriteString(name)
		b.WriteString("=.=")
		b.WriteString(labelEscapes.Replace(OneLine(value, len(value))))
		b.WriteString(";.;")
	}
	label("namespace", c.namespace)
	if k.server != "" {
		label("server", k.server)
	}
	for i, name := range k.metric.labels {
		label(name, k.values[i])
	}
	b.WriteString(k.metric.name)
	return b.String()
}

// labelEscapes keeps what labels are told apart by out of their values, each value as its own:
// with the same stand-in for all, two servers would share a counter.
var labelEscapes = strings.NewReplacer("%", "%25", ";", "%3B", "=", "%3D")

// label is the server's name for metrics.
func (s *Stream) label() string {
	if s.call.server != "" {
		return s.call.server
	}
	if s.policy == misnamed {
		return misnamed.Name
	}
	s.call.server = s.serverName()
	return s.call.server
}

// outcome counts a decision and publishes it.
func (s *Stream) outcome(o string) {
	s.g.counts.add(s.label(), decisions, o)
	if s.call.tool != nil {
		s.g.counts.add(s.label(), toolCalls, s.call.tool.Match, o)
	}
	s.state(stateOutcome, o)
	if s.policy.Observe {
		// Only where nothing came of the outcome: elsewhere it would cost and say nothing.
		s.state(stateMode, modeObserve)
	}
}
