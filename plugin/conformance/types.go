package conformance

import (
	"strings"
	"testing"
)

// underAnotherType: servers read JSON under many types, and run the call each time that it
// comes. What is no JSON goes on, whatever its headers say.
func underAnotherType(t *testing.T, f Front) {
	c, u, _ := serve(t, f, asJSON)
	call := toolCall("1", "charge", `{}`)
	inBody := toolCall("1", "charge", `{"amount":1,"idempotency_key":"k"}`)
	for _, contentType := range []string{"application/json, application/json", "application/json charset=utf-8", "application/json-rpc",
		"text/json", "text/plain", "application/x-www-form-urlencoded", "application/octet-stream"} {
		for range 2 {
			wantRefusal(t, c.post(call, "Content-Type", contentType, "Idempotency-Key", "k"), 400, "idempotency_unsupported_request")
			if contentType != "application/octet-stream" {
				wantRefusal(t, c.post(inBody, "Content-Type", contentType), 400, "idempotency_unsupported_request")
			}
		}
	}
	if n := len(u.Seen()); n != 0 {
		t.Fatalf("%d keyed calls reached the server", n)
	}
	passes := func(what, body string, h ...string) {
		t.Helper()
		before := len(u.Seen())
		r := c.post(body, h...)
		seen := u.Seen()
		if r.Err != nil || r.Status >= 300 || len(seen) != before+1 {
			t.Fatalf("%s: %d %v %.200s, %d reached the server", what, r.Status, r.Err, r.Body, len(seen)-before)
		}
		if got := seen[before].Body; got != body {
			t.Errorf("%s: the server got %d bytes of %d, %.60q", what, len(got), len(body), got)
		}
	}
	const form = "application/x-www-form-urlencoded"
	upload := "--x\r\n\r\n" + strings.Repeat("{\"idempotency_key\":1}", 100_000) + "\r\n--x--\r\n"
	passes("a form", "grant_type=client_credentials", "Content-Type", form)
	passes("a form with a stray key", "grant_type=client_credentials", "Content-Type", form, "Idempotency-Key", "k")
	passes("an upload", upload, "Content-Type", "multipart/form-data; boundary=x")
	passes("an upload with a stray key", upload, "Content-Type", "multipart/form-data; boundary=x", "Idempotency-Key", "k")
	passes("a list with a stray key", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Content-Type", "application/json-rpc", "Idempotency-Key", "k")
	passes("a call without a key", call, "Content-Type", "text/plain")
	passes("nothing", "", "Content-Type", form, "Idempotency-Key", "k")
}
