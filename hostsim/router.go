package hostsim

import (
	"strconv"
	"time"
)

// router takes a request that has passed the filter to the upstream, and brings the response back. It is the sink of the request
// halfStream and, like the stream, belongs to the worker's loop.
type router struct {
	s    *stream
	pool dialer
	opts routeOptions

	x        outgoing
	head     *headerMap
	sentAt   time.Duration
	ended    bool // the whole request has passed
	body     []byte
	tail     *headerMap
	overflow bool // the body grew too large to be kept for a retry
	retries  retryPolicy
	stopTime func()
	canceled bool
	attempts int // how often the request has been sent
}

// dialer begins exchanges with an upstream.
type dialer interface {
	dial(h *headerMap, end bool, events exchangeEvents) outgoing
	target() string
}

// outgoing is one request on its way to the upstream, and what may still be said of its response.
type outgoing interface {
	send(b []byte, end bool, sent func())
	sendTrailers(t *headerMap)
	// give says that so many bytes of the response need no memory any more.
	give(n int)
	cancel()
}

type routeOptions struct {
	retries         int
	responseTimeout time.Duration
}

func (r *router) headers(h *headerMap, end bool) {
	r.head, r.retries = h, takeRetryPolicy(h, r.opts.retries)
	if d := r.opts.responseTimeout; d > 0 {
		h.set("x-envoy-expected-rq-timeout-ms", strconv.FormatInt(d.Milliseconds(), 10))
	}
	r.open(end)
	if end {
		r.requestEnded()
	}
}

func (r *router) open(end bool) {
	r.sentAt = r.s.host().clock.Mono()
	r.attempts++
	var x outgoing
	post := func(name string, f func()) {
		r.s.worker.loop.post(name, func() {
			if r.x == x && !r.s.done {
				f()
			}
		})
	}
	x = r.pool.dial(r.head, end, exchangeEvents{
		headers: func(h *headerMap, end bool) { post("response headers", func() { r.responseHeaders(h, end) }) },
		data: func(b []byte, end bool) {
			post("response body", func() { r.responseEnded(end); r.s.response.onData(b, end) })
		},
		trailers: func(t *headerMap) {
			post("response trailers", func() { r.responseEnded(true); r.s.response.onTrailers(t) })
		},
		reset: func(reason resetReason) { post("upstream reset", func() { r.reset(reason) }) },
	})
	r.x = x
	r.s.response.release = x.give
}

func (r *router) data(b []byte, end bool, owed int) {
	release := r.s.request.release
	if r.retries.left > 0 && !r.overflow {
		if r.body = append(r.body, b...); len(r.body) > r.s.host().config.BufferLimit {
			r.overflow, r.body = true, nil
		}
	}
	if r.x != nil {
		r.x.send(b, end, func() { release(owed) })
	} else {
		release(owed)
	}
	if end {
		r.requestEnded()
	}
}

func (r *router) trailers(t *headerMap) {
	r.tail = t
	if r.x != nil {
		r.x.sendTrailers(t)
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
		r.s.cut("response_timeout", flagUpstreamRequestTimeout)
		return
	}
	r.s.localReply(localReply{status: 504, body: []byte("upstream request timeout"), details: "response_timeout", flags: flagUpstreamRequestTimeout})
}

func (r *router) responseHeaders(h *headerMap, end bool) {
	status, _ := strconv.Atoi(h.value(":status"))
	if r.retries.wantsStatus(status) && r.retry() {
		return
	}
	r.responseEnded(end)
	r.s.setDetails("via_upstream")
	h.set("x-envoy-upstream-service-time", strconv.FormatInt((r.s.host().clock.Mono()-r.sentAt).Milliseconds(), 10))
	r.s.response.onHeaders(h, end)
}

// responseEnded stops the timeout: from here on only the filter can be slow.
func (r *router) responseEnded(end bool) {
	if end && r.stopTime != nil {
		r.stopTime()
	}
}

func (r *router) reset(reason resetReason) {
	if r.s.response.passed {
		r.s.cut("upstream_reset_after_response_started{"+reason.details()+"}", reason.flag)
		return
	}
	if r.retries.wantsReset(reason) && r.retry() {
		return
	}
	r.s.localReply(localReply{status: reason.status, body: []byte(reason.text()), details: "upstream_reset_before_response_started{" + reason.details() + "}", flags: reason.flag})
}

// retry sends the request once more if attempts are left, the body was kept and the response has not begun.
func (r *router) retry() bool {
	if r.retries.left == 0 {
		r.s.flags |= flagUpstreamRetryLimitExceeded
		return false
	}
	if r.overflow || !r.ended {
		return false
	}
	r.retries.left--
	r.x.cancel()
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
		r.x.send(r.body, r.tail == nil, func() {})
	}
	if r.tail != nil {
		r.x.sendTrailers(r.tail)
	}
}

func (r *router) cancel() {
	r.canceled = true
	if r.stopTime != nil {
		r.stopTime()
	}
	if r.x != nil {
		r.x.cancel()
		r.x = nil
	}
}

// address is where the request went, or "" as long as it has not gone.
func (r *router) address() string {
	if r.head == nil {
		return ""
	}
	return r.pool.target()
}
