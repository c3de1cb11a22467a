package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// How a request arrives.
var framing = []Case{
	{33, "with-and-without-a-body", true, everyFraming},
	{34, "ended-by-trailers", true, trailers},
}

const (
	isFirst       = "first"
	isReplay      = "replay"
	isPassed      = "passed"
	isUnsupported = "idempotency_unsupported_request"
)

func (r reply) kind() string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.isRefusal() != "":
		return r.isRefusal()
	case r.Status != 200:
		return fmt.Sprint(r.Status)
	case r.Header.Get("Idempotency-Replayed") != "":
		return isReplay
	case strings.Contains(r.Body, "run 0"):
		return isPassed
	}
	return isFirst
}

// What has no body comes first: nothing has told the filter yet whether this proxy
// buffers headers, and nothing will while such a request waits. Where they are not buffered
// it then goes on as it is, since it calls no tool.
func everyFraming(t *testing.T, f Front) {
	h1 := func(method, headers string) string {
		return method + " /mcp HTTP/1.1\r\nHost: cases\r\nContent-Type: application/json\r\n" + headers + "\r\n"
	}
	h2 := func(method string, more ...string) []string {
		return append([]string{":method", method, ":scheme", "http", ":authority", "cases", ":path", "/mcp", "content-type", "application/json"}, more...)
	}
	const key1 = "Idempotency-Key: k\r\n"
	body := toolCall("1", "charge", `{}`)
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	half := len(body) / 2
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	for _, noHold := range []bool{false, true} {
		t.Run(map[bool]string{false: "buffered", true: "not-buffered"}[noHold], func(t *testing.T) {
			u := newUpstream(t, asJSON)
			p := f.Start(t, Setup{Config: plain, Upstream: u.URL, Workers: 1, NoHoldHeaders: noHold})
			patient := newClient(t, p)
			one := func(parts ...string) func() reply {
				return func() reply { return patient.patiently(func() reply { return overHTTP1(t, p, parts...) }) }
			}
			two := func(frames ...frame) func() reply {
				return func() reply { return patient.patiently(func() reply { return overHTTP2(t, p, frames...) }) }
			}
			for _, c := range []struct {
				name, want string
				send       func() reply
			}{
				{"GET", isPassed, one(h1("GET", key1))},
				{"GET over HTTP/2", isPassed, two(frame{headers: h2("GET", "idempotency-key", "k"), end: true})},
				{"length 0", isUnsupported, one(h1("POST", key1+"Content-Length: 0\r\n"))},
				{"length 0, no key", isPassed, one(h1("POST", "Content-Length: 0\r\n"))},
				{"no chunks", isUnsupported, one(h1("POST", key1+"Transfer-Encoding: chunked\r\n"), "0\r\n\r\n")},
				{"no chunks, no key", isPassed, one(h1("POST", "Transfer-Encoding: chunked\r\n"), "0\r\n\r\n")},
				{"END_STREAM with the headers", isUnsupported, two(frame{headers: h2("POST", "idempotency-key", "k"), end: true})},
				{"END_STREAM with the headers, no key", isPassed, two(frame{headers: h2("POST"), end: true})},
				{"END_STREAM with no data", isUnsupported, two(frame{headers: h2("POST", "idempotency-key", "k")}, frame{end: true})},
				{"END_STREAM with no data, no key", isPassed, two(frame{headers: h2("POST")}, frame{end: true})},
				{"trailers and no data", isUnsupported, two(frame{headers: h2("POST", "idempotency-key", "k")}, frame{headers: []string{"x-sum", "1"}, end: true})},
				{"a body", isFirst, one(h1("POST", key1+length), body)},
				{"a body in parts", isReplay, one(h1("POST", key1+length), body[:half], body[half:])},
				{"chunks", isReplay, one(h1("POST", key1+"Transfer-Encoding: chunked\r\n"), chunk(body[:half]), chunk(body[half:]), "0\r\n\r\n")},
				{"Expect: 100-continue", isReplay, one(h1("POST", key1+length+"Expect: 100-continue\r\n"), "100", body)},
				{"data over HTTP/2", isReplay, two(frame{headers: h2("POST", "idempotency-key", "k")}, frame{data: body, end: true})},
				{"data, then END_STREAM", isReplay, two(frame{headers: h2("POST", "idempotency-key", "k")}, frame{data: body[:half]}, frame{data: body[half:]}, frame{end: true})},
				{"a body without a key", isFirst, one(h1("POST", length), body)},
				{"length 0 again", isUnsupported, one(h1("POST", key1+"Content-Length: 0\r\n"))},
				{"no chunks again", isUnsupported, one(h1("POST", key1+"Transfer-Encoding: chunked\r\n"), "0\r\n\r\n")},
			} {
				r := c.send()
				if noHold && c.want == isUnsupported && r.kind() == isPassed {
					continue
				}
				if r.kind() != c.want {
					t.Errorf("%s: expected %s, found %s (%d %s)", c.name, c.want, r.kind(), r.Status, r.Body)
				}
			}
			wantRuns(t, u, 2)
		})
	}
}

func trailers(t *testing.T, f Front) {
	for _, noHold := range []bool{false, true} {
		t.Run(map[bool]string{false: "buffered", true: "not-buffered"}[noHold], func(t *testing.T) {
			u := newUpstream(t, asJSON)
			p := f.Start(t, Setup{Config: plain, Upstream: u.URL, Workers: 1, NoHoldHeaders: noHold})
			for _, proto := range []string{"HTTP/1.1", "HTTP/2"} {
				tr := &http.Transport{Protocols: new(http.Protocols)}
				tr.Protocols.SetHTTP1(proto == "HTTP/1.1")
				tr.Protocols.SetUnencryptedHTTP2(proto == "HTTP/2")
				c := newClient(t, p)
				c = &client{t, c.url, &http.Client{Transport: withTrailer{tr}, Timeout: patience}, c.eventual}
				wantFirst(t, c.call("1", "charge", `{}`, proto))
				wantReplay(t, c.call("2", "charge", `{}`, proto))
				wantRefusal(t, c.call("3", "charge", `{"n":1}`, proto), 409, "idempotency_key_conflict")
				tr.CloseIdleConnections()
			}
			wantRuns(t, u, 2)
		})
	}
}

// withTrailer sends each request with a trailer, which over HTTP/1.1 means chunks.
type withTrailer struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (tr withTrailer) RoundTrip(req *http.Request) (*http.Response, error) {
	req.Trailer = http.Header{"X-Sum": {"1"}}
	req.ContentLength = -1
	return tr.Transport.RoundTrip(req)
}
