package upstream

import (
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/callonce/callonce/hostsim/internal/flags"
)

// Reset says how an exchange failed, in the words of Envoy's response code details.
type Reset struct {
	name      string // "connection_termination"
	transport string // why a connection could not be made
	Flag      flags.Set
	Status    int
}

// Details is the part in braces of the response code details.
func (r Reset) Details() string {
	if r.transport == "" {
		return r.name
	}
	return r.name + "|" + strings.ReplaceAll(r.transport, " ", "_")
}

// Text is the body of the reply that Envoy makes for it.
func (r Reset) Text() string {
	return "upstream connect error or disconnect/reset before headers. reset reason: " + strings.ReplaceAll(r.name, "_", " ")
}

// ConnectionTermination is a connection that ended before its response.
func ConnectionTermination() Reset {
	return Reset{name: "connection_termination", Flag: flags.UpstreamConnectionTermination, Status: 503}
}

// ProtocolError is a response that is none, or breaks off.
func ProtocolError() Reset {
	return Reset{name: "protocol_error", Flag: flags.UpstreamProtocolError, Status: 502}
}

func connectionFailure(err error) Reset {
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return Reset{name: "connection_timeout", Flag: flags.UpstreamConnectionFailure, Status: 503}
	}
	cause := err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		cause = errno.Error()
	}
	cause = strings.ToUpper(cause[:1]) + cause[1:]
	return Reset{name: "remote_connection_failure", transport: "delayed connect error: " + cause, Flag: flags.UpstreamConnectionFailure, Status: 503}
}
