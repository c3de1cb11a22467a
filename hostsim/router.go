package hostsim

import (
	"strconv"
	"time"

	"github.com/callonce/callonce/hostsim/internal/flags"
	"github.com/callonce/callonce/hostsim/internal/header"
	"github.com/callonce/callonce/hostsim/internal/upstream"
)

// router takes a request that has passed the filter to the upstream, and brings the response back. It is the sink of the request
// halfStream and, like the stream, belongs to the worker's loop.
type router struct {
	s    *stream
	pool upstream.Dialer
	opts routeOptions

	x        upstream.Exchange
	head     *header.Map
	sentAt   time.Duration
	ended    bool // the whole request has passed
	body     []byte
	tail     *header.Map
	overflow bool // the body grew too large to be kept for a retry
	retries  retryPolicy
	stopTime func()
	canceled bool
	attempts int // how often the request has been sent
}

type routeOptions struct {
	retries         int
	responseTimeout time.Duration
	endWithData     bool // of a response: the last piece of a body and its end are one callback, as HTTP/2 has them in one frame
}

func (r *router) headers(h *header.Map, end bool) {
	r.head, r.retries = h, takeRetryPolicy(h, r.opts.retries)
	if d := r.opts.responseTimeout; d > 0 {
		h.Set("x-envoy-expected-rq-timeout-ms", strconv.FormatInt(d.Milliseconds(), 10))
	}
	r.open(end)
	if end {
		r.requestEnded()
	}
}

func (r *router) open(end bool) {
	r.sentAt = r.s.host().clock.Mono()
	r.attempts++
	var x upstream.Exchange
	post := func(name string, f func()) {
		r.s.worker.loop.post(name, func() {
			if r.x == x && !r.s.done {
				f()
			}
		})
	}
	x = r.pool.Dial(r.head, end, upstream.Events{
		Headers: func(h *header.Map, end bool) { post("response headers", func() { r.responseHeaders(h, end) }) },
		Data: func(b []byte, end bool) {
			post("response body", func() {
				r.responseEnded(end)
				if end && len(b) > 0 && !r.opts.endWithData {
					// The end is a callback of its own, but no client can come between: it has the whole body, and may leave.
					if r.s.response.onData(b, false); r.x != x || r.s.done {
						return
					}
					b = nil
				}
				r.s.response.onData(b, end)
			})
		},
		Trailers: func(t *header.Map) {
			post("response trailers", func() { r.responseEnded(true); r.s.response.onTrailers(t) })
		},
		Reset: func(reason upstream.Reset) { post("upstream reset", func() { r.reset(reason) }) },
	})
	r.x = x
	r.s.response.release = x.Give
}

func (r *router) data(b []byte, end bool, owed int) {
	release := r.s.request.release
	if r.retries.left > 0 && !r.overflow {
		if r.body = append(r.body, b...); len(r.body) > r.s.host().config.BufferLimit {
			r.overflow, r.body = true, nil
		}
	}
	if r.x != nil {
		r.x.Send(b, end, func() { release(owed) })
	} else {
		release(owed)
	}
	if end {
		r.requestEnded()
	}
}

func (r *router) trailers(t *header.Map) {
	r.tail = t
	if r.x != nil {
		r.x.SendTrailers(t)
	}
	r.requestEnded()
}

// requestEnded starts the clock of the response timeout, which does not run while a client is still sending.
func (r *router) requestEnded() {
	r.ended = true
	if d := r.opts.responseTimeout; d > 0 && !r.s.done && r.stopTime == nil {
		r.stopTime = r.s.host().clock.AfterFunc(d, func() { r.s.worker.loop.post("response timeout", r.timeout) })
	}
}

func (r *router) timeout() {
	if r.s.done || r.canceled {
		return
	}
	if r.s.response.passed {
		r.s.cut("response_timeout", flags.UpstreamRequestTimeout)
		return
	}
	r.s.localReply(localReply{status: 504, body: []byte("upstream request timeout"), details: "response_timeout", flags: flags.UpstreamRequestTimeout})
}

func (r *router) responseHeaders(h *header.Map, end bool) {
	status, _ := strconv.Atoi(h.Value(":status"))
	if r.retries.wantsStatus(status) && r.retry() {
		return
	}
	r.responseEnded(end)
	r.s.setDetails("via_upstream")
	h.Set("x-envoy-upstream-service-time", strconv.FormatInt((r.s.host().clock.Mono()-r.sentAt).Milliseconds(), 10))
	r.s.response.onHeaders(h, end)
}

// responseEnded stops the timeout: from here on only the filter can be slow.
func (r *router) responseEnded(end bool) {
	if end && r.stopTime != nil {
		r.stopTime()
	}
}

func (r *router) reset(reason upstream.Reset) {
	if r.s.response.passed {
		r.s.cut("upstream_reset_after_response_started{"+reason.Details()+"}", reason.Flag)
		return
	}
	if r.retries.wantsReset(reason) && r.retry() {
		return
	}
	r.s.localReply(localReply{status: reason.Status, body: []byte(reason.Text()), details: "upstream_reset_before_response_started{" + reason.Details() + "}", flags: reason.Flag})
}

// retry sends the request once more if attempts are left, the body was kept and the response has not begun.
func (r *router) retry() bool {
	if r.retries.left == 0 {
		r.s.flags |= flags.UpstreamRetryLimitExceeded
		return false
	}
	if r.overflow || !r.ended {
		return false
	}
	r.retries.left--
	r.x.Cancel()
	r.x = nil
	r.s.host().clock.AfterFunc(retryBackoff, func() { r.s.worker.loop.post("retry", r.resend) })
	return true
}

func (r *router) resend() {
	if r.s.done || r.canceled {
		return
	}
	r.open(len(r.body) == 0 && r.tail == nil)
	if len(r.body) > 0 || r.tail != nil {
		r.x.Send(r.body, r.tail == nil, func() {})
	}
	if r.tail != nil {
		r.x.SendTrailers(r.tail)
	}
}

func (r *router) cancel() {
	r.canceled = true
	if r.stopTime != nil {
		r.stopTime()
	}
	if r.x != nil {
		r.x.Cancel()
		r.x = nil
	}
}

// address is where the request went, or "" as long as it has not gone.
func (r *router) address() string {
	if r.head == nil {
		return ""
	}
	return r.pool.Target()
}
