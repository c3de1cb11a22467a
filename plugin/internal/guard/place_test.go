package guard

import (
	"strings"
	"testing"
)

// The key goes on in the body: also one that is derived, with or without strip, and where
// the headers have gone ahead.
func TestForwardInBody(t *testing.T) {
	const place = `,"forward_key":"json:/params/arguments/request_id"`
	for _, held := range []bool{true, false} {
		w := newWorld(t)
		g := w.worker(preset("derived", place))
		if !held {
			g.buffering = notBuffered
		}
		send := func(args string) *exchange {
			x := w.open(g, user, "ada", "content-length", "99", "idempotency-key", "not a key source here")
			x.body = []byte(toolCall("1", args))
			ahead := x.stream.RequestHeaders(false) == Continue
			if ahead == held {
				t.Fatalf("the headers went ahead: %v", ahead)
			}
			x.sent = x.stream.RequestBody(len(x.body), true) == Continue
			if n := x.header("content-length"); x.sent && (held && len(n) != 1 || !held && len(n) != 0) {
				t.Errorf("headers held %v: a length of %v goes on", held, n)
			}
			if x.sent && len(x.header("idempotency-key")) > 0 {
				t.Error("a header goes on that makes a gateway repeat")
			}
			return x
		}
		first := send(`{"a":1}`)
		first.wantSent()
		_, id, _ := strings.Cut(string(first.body), `"request_id":"`)
		if want := toolCall("1", `{"request_id":"`+id[:64]+`","a":1}`); string(first.body) != want || !strings.HasPrefix(id, first.state["callonce.key_hash"]) {
			t.Errorf("the derived key went on as %s; its hash is %s", first.body, first.state["callonce.key_hash"])
		}
		first.answer(200, "application/json", okResult)
		if again := send(`{"a":1}`); again.sent {
			t.Error("the repeat ran")
		}
		keyed := send(`{"a":1,"idempotency_key":"kéy two"}`)
		keyed.wantSent()
		if want := toolCall("1", `{"request_id":"kéy two","a":1}`); string(keyed.body) != want {
			t.Errorf("expected %s, found %s", want, keyed.body)
		}
		send(`{"a":1,"Request_ID":"x"}`).wantRefused(200, "idempotency_unsupported_request")
	}
	// Without a key, and with the guard off, nothing changes.
	w := newWorld(t)
	g := w.worker(anyone(place + `,"tools":[{"match":"get_*","guard":"off"}]`))
	for _, body := range []string{toolCall("1", `{"a":1}`), strings.Replace(toolCall("1", `{"idempotency_key":"k"}`), "charge", "get_it", 1)} {
		x := w.send(g, body)
		if x.wantSent(); string(x.body) != body {
			t.Errorf("expected %s, found %s", body, x.body)
		}
	}
	x := w.send(g, toolCall("1", `{"a":1,"idempotency_key":"k"}`), "idempotency-key", "k")
	if want := toolCall("1", `{"request_id":"k","a":1,"idempotency_key":"k"}`); string(x.body) != want {
		t.Errorf("without strip: expected %s, found %s", want, x.body)
	}
}
