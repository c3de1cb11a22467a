// Package flags has Envoy's response flags. It knows nothing of what raises them.
package flags

import "strings"

// Set is the number that Envoy gives as the property response.flags.
type Set uint64

// The flags that can arise here, with Envoy's own values.
const (
	UpstreamRequestTimeout          Set = 0x4
	UpstreamRemoteReset             Set = 0x10
	UpstreamConnectionFailure       Set = 0x20
	UpstreamConnectionTermination   Set = 0x40
	NoRouteFound                    Set = 0x100
	DownstreamConnectionTermination Set = 0x4000
	UpstreamRetryLimitExceeded      Set = 0x8000
	StreamIdleTimeout               Set = 0x10000
	DownstreamProtocolError         Set = 0x40000
	UpstreamProtocolError           Set = 0x800000
)

var short = []struct {
	flag Set
	name string
}{
	{UpstreamRequestTimeout, "UT"}, {UpstreamRemoteReset, "UR"}, {UpstreamConnectionFailure, "UF"},
	{UpstreamConnectionTermination, "UC"}, {DownstreamConnectionTermination, "DC"}, {UpstreamRetryLimitExceeded, "URX"},
	{NoRouteFound, "NR"}, {StreamIdleTimeout, "SI"}, {DownstreamProtocolError, "DPE"}, {UpstreamProtocolError, "UPE"},
}

// String is %RESPONSE_FLAGS%: short names with commas, or "-".
func (f Set) String() string {
	var names []string
	for _, n := range short {
		if f&n.flag != 0 {
			names = append(names, n.name)
		}
	}
	if names == nil {
		return "-"
	}
	return strings.Join(names, ",")
}
