// Package upstream sends requests to servers as they are, once, and tells how each went, in Envoy's words. It knows no filter and no client.
package upstream

import "github.com/callonce/callonce/hostsim/internal/header"

// Dialer begins exchanges with an upstream.
type Dialer interface {
	// Dial begins an exchange; the body follows by Send, unless end is true.
	Dial(h *header.Map, end bool, events Events) Exchange
	// Target is the host:port that exchanges go to.
	Target() string
}

// Exchange is one request on its way to the upstream, and what may still be said of its response.
type Exchange interface {
	// Send queues a piece of the body. sent is called once it needs no memory any more.
	Send(b []byte, end bool, sent func())
	// SendTrailers ends the request.
	SendTrailers(t *header.Map)
	// Give says that so many bytes of the response need no memory any more.
	Give(n int)
	// Cancel ends the exchange. No event follows.
	Cancel()
}

// Events are called in order, from goroutines of the exchange. Nothing follows an end or a reset.
type Events struct {
	Headers  func(h *header.Map, end bool)
	Data     func(b []byte, end bool)
	Trailers func(t *header.Map)
	Reset    func(r Reset)
	// Whole is headers, data and trailers in one step, where the receiver takes them so; else nil.
	Whole func(h *header.Map, b []byte, t *header.Map)
}
