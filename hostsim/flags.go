package hostsim

import "strings"

// responseFlags is the number that Envoy gives as the property response.flags.
type responseFlags uint64

// The flags that can arise here, with Envoy's own values.
const (
	flagUpstreamRequestTimeout          responseFlags = 0x4
	flagUpstreamRemoteReset             responseFlags = 0x10
	flagUpstreamConnectionFailure       responseFlags = 0x20
	flagUpstreamConnectionTermination   responseFlags = 0x40
	flagNoRouteFound                    responseFlags = 0x100
	flagDownstreamConnectionTermination responseFlags = 0x4000
	flagUpstreamRetryLimitExceeded      responseFlags = 0x8000
	flagStreamIdleTimeout               responseFlags = 0x10000
	flagDownstreamProtocolError         responseFlags = 0x40000
	flagUpstreamProtocolError           responseFlags = 0x800000
)

var flagNames = []struct {
	flag responseFlags
	name string
}{
	{flagUpstreamRequestTimeout, "UT"}, {flagUpstreamRemoteReset, "UR"}, {flagUpstreamConnectionFailure, "UF"},
	{flagUpstreamConnectionTermination, "UC"}, {flagDownstreamConnectionTermination, "DC"}, {flagUpstreamRetryLimitExceeded, "URX"},
	{flagNoRouteFound, "NR"}, {flagStreamIdleTimeout, "SI"}, {flagDownstreamProtocolError, "DPE"}, {flagUpstreamProtocolError, "UPE"},
}

// String is %RESPONSE_FLAGS%: short names with commas, or "-".
func (f responseFlags) String() string {
	var names []string
	for _, n := range flagNames {
		if f&n.flag != 0 {
			names = append(names, n.name)
		}
	}
	if names == nil {
		return "-"
	}
	return strings.Join(names, ",")
}
