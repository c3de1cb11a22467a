package hostsim

import (
	"errors"
	"net"
	"strings"
	"syscall"
)

// resetReason says how an exchange failed, in the words of Envoy's response code details.
type resetReason struct {
	name      string // "connection_termination"
	transport string // why a connection could not be made
	flag      responseFlags
	status    int
}

// details is the part in braces of the response code details.
func (r resetReason) details() string {
	if r.transport == "" {
		return r.name
	}
	return r.name + "|" + strings.ReplaceAll(r.transport, " ", "_")
}

// text is the body of the reply that Envoy makes for it.
func (r resetReason) text() string {
	return "upstream connect error or disconnect/reset before headers. reset reason: " + strings.ReplaceAll(r.name, "_", " ")
}

func connectionTermination() resetReason {
	return resetReason{name: "connection_termination", flag: flagUpstreamConnectionTermination, status: 503}
}

func protocolError() resetReason {
	return resetReason{name: "protocol_error", flag: flagUpstreamProtocolError, status: 502}
}

func connectionFailure(err error) resetReason {
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return resetReason{name: "connection_timeout", flag: flagUpstreamConnectionFailure, status: 503}
	}
	cause := err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		cause = errno.Error()
	}
	cause = strings.ToUpper(cause[:1]) + cause[1:]
	return resetReason{name: "remote_connection_failure", transport: "delayed connect error: " + cause, flag: flagUpstreamConnectionFailure, status: 503}
}
