package callonce

import (
	"context"
	"io"
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
	// settle lets the transport read what it passes on, and put an error in the place
	// of an answer that was lost.
	settle bool

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
	if call.key == "" {
		resp, err := base.RoundTrip(req)
		if err == nil {
			call.note(resp)
		}
		return resp, err
	}
	if call.settle {
		return t.settle(base, req, call)
	}
	return send(base, req, call)
}

// send sends a copy that has the key: a RoundTripper must leave the request as it is.
func send(base http.RoundTripper, req *http.Request, call *Call) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set(Header, call.key)
	resp, err := base.RoundTrip(req)
	if err == nil {
		call.note(resp)
	}
	return resp, err
}

// settle sees to it that a tools/call ends in a message that its client can read: a
// refusal comes with status 200, since clients differ in what they make of others, and
// an answer that was lost is an error of that call alone.
func (t Transport) settle(base http.RoundTripper, req *http.Request, call *Call) (*http.Response, error) {
	id, isCall, req, err := readCall(req)
	if err != nil {
		return nil, err
	}
	if !isCall { // a cancellation, say: no key belongs on it
		return base.RoundTrip(req)
	}
	attempt, _ := req.Context().Value(attemptKey{}).(*attempt)
	resp, err := send(base, req, call)
	if err != nil {
		if req.Context().Err() != nil {
			return nil, err
		}
		attempt.lose(err)
		return lostResponse(req, id), nil
	}
	if isStream(resp) {
		resp.Body = &streamReader{body: resp.Body, id: id, attempt: attempt}
		return resp, nil
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		if req.Context().Err() != nil {
			return nil, err
		}
		attempt.lose(err)
		return lostResponse(req, id), nil
	}
	message := readMessage(body)
	attempt.hear(message)
	switch {
	case message.refusal != nil:
		return response(req, resp.Header, body), nil
	case message.response:
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusRequestTimeout || resp.StatusCode == 499:
		attempt.lose(statusError(resp.Status))
		return lostResponse(req, id), nil
	}
	resp.Body = bodyOf(body)
	return resp, nil
}
