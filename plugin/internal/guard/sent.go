package guard

import (
	"encoding/binary"
	"strings"
)

// viaUpstream is the detail of an answer that a server gave; any other is the
// proxy's own.
const viaUpstream = "via_upstream"

// unsent are the proxy's replies that prove that no byte of the request was taken by
// a server. The details are exact (or, with a trailing *, a beginning), and flag must
// be the only one set. Everything that is not in this table may have been sent. Each
// line was seen on a real Envoy, 1.36.4 and 1.40.0 (testdata/replies.json,
// e2e/replies_test.go); none may be here that was not.
var unsent = []struct {
	details  string
	flag     uint64
	attempts uint64 // of the router, at most; 0 = a filter behind this one replied
}{
	{"route_not_found", flagNoRoute, 1},
	{"cluster_not_found", flagNoCluster, 1},
	{"no_healthy_upstream", flagNoHealthyUpstream, 1},
	// No connection came to be, or no TLS on it.
	{"upstream_reset_before_response_started{remote_connection_failure|*", flagConnectFailure, 1},
	{"upstream_reset_before_response_started{connection_timeout}", flagConnectFailure, 1},
	// A circuit breaker.
	{"upstream_reset_before_response_started{overflow}", flagOverflow, 1},
	// HTTP/2 REFUSED_STREAM, or a GOAWAY that names an earlier stream as the last one:
	// the server promises that it did nothing (RFC 9113, sections 8.7 and 6.8).
	{"upstream_reset_before_response_started{remote_refused_stream_reset}", flagRemoteReset, 1},
	{"direct_response", 0, 0},
	{"local_rate_limited", flagRateLimited, 0},
	{"fault_filter_abort", flagFaultInjected, 0},
	{"rbac_access_denied_matched_policy[*", 0, 0},
}

// Response flags as bits of the 8-byte number response.flags (Envoy's
// CoreResponseFlag order).
const (
	flagNoHealthyUpstream   = 1 << 1
	flagRequestTimeout      = 1 << 2
	flagLocalReset          = 1 << 3
	flagRemoteReset         = 1 << 4
	flagConnectFailure      = 1 << 5
	flagTermination         = 1 << 6
	flagOverflow            = 1 << 7
	flagNoRoute             = 1 << 8
	flagFaultInjected       = 1 << 10
	flagRateLimited         = 1 << 11
	flagClientTermination   = 1 << 14
	flagRetryLimitExceeded  = 1 << 15
	flagStreamIdleTimeout   = 1 << 16
	flagMaxDuration         = 1 << 19
	flagDurationTimeout     = 1 << 22
	flagServerProtocolError = 1 << 23
	flagNoCluster           = 1 << 24
	flagClientReset         = 1 << 28
)

// nothingSent reports whether a proxy's own reply proves that the call never left, or
// that the server would not have it. flags and attempts are the proxy's 8-byte numbers;
// attempts may be missing.
func nothingSent(details string, flags, attempts []byte) bool {
	if len(flags) != 8 {
		return false
	}
	set, made := binary.LittleEndian.Uint64(flags), uint64(1)
	known := len(attempts) == 8
	if known {
		// Where the route has retries, one attempt already is over the limit that a guarded
		// call is sent with. After a second attempt the flag would hide what became of the
		// first.
		set &^= flagRetryLimitExceeded
		made = binary.LittleEndian.Uint64(attempts)
	}
	for _, u := range unsent {
		begin, open := strings.CutSuffix(u.details, "*")
		if set == u.flag && (details == begin || open && strings.HasPrefix(details, begin)) {
			return made <= u.attempts
		}
	}
	return false
}
