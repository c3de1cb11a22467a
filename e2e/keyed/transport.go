// Package keyed lets an official MCP client send an idempotency key with a call. No
// client has a field for it yet; all let one change the HTTP requests that they
// make, and that is enough. It knows where a key may stand, and nothing of what becomes
// of it.
package keyed

import (
	"context"
	"net/http"
	"sync"
)

// Header carries the key, as in draft-ietf-httpapi-idempotency-key-header.
const Header = "Idempotency-Key"

// ReplayedHeader is on an answer that was given before.
const ReplayedHeader = "Idempotency-Replayed"

// Call is one call's key, and what HTTP answered to it.
type Call struct {
	key string

	mu     sync.Mutex
	answer *Answer
}

// Answer is what an MCP client does not show of an answer.
type Answer struct {
	// Status is the HTTP status.
	Status int
	// Replayed says that the answer carries Idempotency-Replayed: true.
	Replayed bool
	// RetryAfter is the Retry-After header; "" without one.
	RetryAfter string
}

type contextKey struct{}

// WithKey returns a context that makes a [Transport] send the key with the request
// that is made for it; an empty key sends none. The Call tells the HTTP answer.
func WithKey(ctx context.Context, key string) (context.Context, *Call) {
	call := &Call{key: key}
	return context.WithValue(ctx, contextKey{}, call), call
}

// Answer returns the first HTTP answer to the call; false when there is none (yet).
func (c *Call) Answer() (Answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer == nil {
		return Answer{}, false
	}
	return *c.answer, true
}

// note keeps the first answer only: a client that gives a call up sends its
// cancellation under the same context.
func (c *Call) note(resp *http.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer == nil {
		c.answer = &Answer{
			Status:     resp.StatusCode,
			Replayed:   resp.Header.Get(ReplayedHeader) == "true",
			RetryAfter: resp.Header.Get("Retry-After"),
		}
	}
}

// Transport adds the key of a request's context to the request.
type Transport struct {
	// Base sends the requests; nil means [http.DefaultTransport].
	Base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	call, _ := req.Context().Value(contextKey{}).(*Call)
	if call == nil {
		return base.RoundTrip(req)
	}
	if call.key != "" {
		req = req.Clone(req.Context())
		req.Header.Set(Header, call.key)
	}
	resp, err := base.RoundTrip(req)
	if err == nil {
		call.note(resp)
	}
	return resp, err
}
