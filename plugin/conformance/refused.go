package conformance

import (
	"strings"
	"testing"
)

// What must be refused rather than guessed at.
var refused = []Case{
	{9, "batches", true, batches},
	{45, "ways-around-a-required-key", true, waysAround},
}

func batches(t *testing.T, f Front) {
	c, u, _ := serve(t, f, asJSON)
	call := toolCall("1", "charge", `{}`)
	for _, body := range []string{"[" + call + "," + call + "]", " \n[" + call + "]"} {
		wantRefusal(t, c.post(body, "Idempotency-Key", "k"), 400, "idempotency_unsupported_request")
	}
	wantFirst(t, c.call("1", "charge", `{}`, "k")) // no key is left behind
	wantRuns(t, u, 1)
}

const required = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","anonymous":true,"tools":[{"match":"charge","guard":"required"}]}},"default":"p"}`

func waysAround(t *testing.T, f Front) {
	c, u, p := serveWith(t, f, required, asJSON)
	call := toolCall("1", "charge", `{}`)
	with := func(old, new string) string { return strings.Replace(call, old, new, 1) }
	for name, body := range map[string]string{
		"no id":             with(`"id":1,`, ""),
		"Name beside name":  with(`"name":`, `"Name":"get","name":`),
		"Name after name":   with(`"charge"`, `"charge","Name":"get"`),
		"NAME instead":      with(`"name":`, `"NAME":`),
		"paramſ instead":    with(`"params":`, `"paramſ":`),
		"Method beside":     with(`"method":`, `"Method":"tools/call","method":`),
		"a batch":           "[" + call + "]",
		"something after":   call + "{}",
		"a byte order mark": "\ufeff" + call,
	} {
		r := c.post(body)
		if r.Status != 400 || r.isRefusal() != "idempotency_unsupported_request" {
			t.Errorf("%s: expected a refusal, found %d %v %s", name, r.Status, r.Err, r.Body)
		}
	}
	for _, contentType := range []string{"text/plain", "application/json-rpc", "multipart/form-data; boundary=x"} {
		wantRefusal(t, c.post(call, "Content-Type", contentType), 400, "idempotency_unsupported_request")
	}
	wantRefusal(t, c.post(call, "Content-Encoding", "gzip"), 400, "idempotency_unsupported_request")
	// UTF-7, which servers on Express decode: the method's name is written in it.
	wantRefusal(t, c.post(with(`"method"`, `"+AG0-ethod"`), "Content-Type", "application/json; charset=utf-7"), 400, "idempotency_unsupported_request")
	// Over HTTP/2 Envoy passes on a method in any case, and some servers compare it without.
	post := []string{":method", "post", ":scheme", "http", ":authority", "x", ":path", "/mcp", "content-type", "application/json"}
	wantRefusal(t, overHTTP2(t, p, frame{headers: post}, frame{data: call, end: true}), 400, "idempotency_key_required")
	wantRefusal(t, c.post(call), 400, "idempotency_key_required")
	for _, h := range []headers{{"Mcp-Method", "tools/list"}, {"Mcp-Method", "tools/call", "Mcp-Name", "get"}} {
		r := c.post(call, append(h, "Idempotency-Key", "k")...)
		if got := r.refusal(t); r.Status != 400 || got.Error.Code != -32020 || string(got.ID) != "1" {
			t.Errorf("%v over a call of charge: expected 400 and -32020, found %d %s", h, r.Status, r.Body)
		}
	}
	wantRuns(t, u, 0)
	wantFirst(t, c.call("1", "charge", `{}`, "k", "Mcp-Method", "tools/call", "Mcp-Name", "charge"))
	wantRuns(t, u, 1)
}
