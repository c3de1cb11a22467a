package guard

import (
	"encoding/binary"
	"strings"
)

// viaUpstream is the detail of an answer that a server gave; any other is the
// proxy's own.
const viaUpstream = "via_upstream"

// Proxy replies that prove that no byte of the request reached a server. The details
// are exact (or, with a trailing *, a beginning), and the flag must be the only one
// set. Everything that is not in this table may have been sent. Measured on Envoy
// 1.40.0.
var unsent = []struct {
	details string
	flag    uint64
}{
	{"route_not_found", flagNoRoute},
	{"cluster_not_found", flagNoCluster},
	{"no_healthy_upstream", flagNoHealthyUpstream},
	{"upstream_reset_before_response_started{remote_connection_failure*", flagConnectFailure},
	{"upstream_reset_before_response_started{local_connection_failure*", flagConnectFailure},
	{"upstream_reset_before_response_started{connection_failure*", flagConnectFailure},
	{"upstream_reset_before_response_started{overflow}", flagOverflow},
}

// Response flags as bits of the 8-byte number response.flags (Envoy's
// CoreResponseFlag order).
const (
	flagNoHealthyUpstream = 1 << 1
	flagConnectFailure    = 1 << 5
	flagOverflow          = 1 << 7
	flagNoRoute           = 1 << 8
	flagNoCluster         = 1 << 26
)

// nothingSent reports whether a proxy's own reply proves that the call never left.
func nothingSent(details string, flags []byte) bool {
	if len(flags) != 8 {
		return false
	}
	set := binary.LittleEndian.Uint64(flags)
	for _, u := range unsent {
		begin, open := strings.CutSuffix(u.details, "*")
		if set == u.flag && (details == begin || open && strings.HasPrefix(details, begin)) {
			return true
		}
	}
	return false
}
