package hostsim

import (
	"strings"
	"time"
)

// Record is what an access log can say of one finished request. What the module sets once proxy_on_log has been called is not in it:
// Envoy's logs are written by then.
type Record struct {
	Time     time.Time     // when the request arrived
	Duration time.Duration // until its stream ended, by the host's clock
	Method   string
	Path     string // as sent, with its query
	Protocol string // "HTTP/1.1" or "HTTP/2"
	Status   int    // 0 when no response was begun
	// Details and Flags are Envoy's %RESPONSE_CODE_DETAILS% and %RESPONSE_FLAGS%. Details of a module's own reply are empty.
	Details, Flags string
	Worker         int
	RequestID      string
	// RequestBytes and ResponseBytes count what arrived from the client and what was sent to it, bodies only.
	RequestBytes, ResponseBytes int
	// FilterState is what the module set with paths of one element.
	FilterState map[string]string
}

func (s *stream) record() Record {
	r := Record{
		Time: s.info.time, Duration: s.ended - s.started, Method: s.info.method, Path: s.info.path, Protocol: s.info.protocol,
		Status: s.status, Details: s.details, Flags: s.flags.String(), Worker: s.worker.number,
		RequestBytes: s.received, ResponseBytes: s.responseBytes, FilterState: map[string]string{},
	}
	if s.request.headers != nil {
		r.RequestID = s.request.headers.Value("x-request-id")
	}
	for k, v := range s.filterState {
		if !strings.Contains(k, "\x00") {
			r.FilterState[k] = string(v)
		}
	}
	return r
}
