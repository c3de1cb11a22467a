package guard

import (
	"strings"
	"testing"
)

// What a stream keeps while its call runs, and what a used stream keeps for the next
// one, does not grow with what the caller sent: in flight there may be hundreds.
func TestLongIDs(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	long := strings.Repeat("i", 100_000)
	kept := func(x *exchange) int { return cap(x.stream.call.id) + cap(x.stream.call.body) }

	first := w.send(g, toolCall(`"\u0069`+long+`"`, `{}`), "idempotency-key", "k")
	first.wantSent()
	if n := kept(first); n > 1000 {
		t.Errorf("a call in flight keeps %d bytes of its id", n)
	}
	// Its response is still known, by the id's value, and no other's.
	first.begin(200, "text/event-stream")
	first.chunks("data: {\"jsonrpc\":\"2.0\",\"id\":\"i"+long+"i\",\"result\":{\"of\":\"another\"}}\n\n", 50_000)
	first.chunks("data: {\"jsonrpc\":\"2.0\",\"id\":\"i"+long+"\",\"result\":{}}\n\n", 50_000)
	first.stream.ResponseBody(0, true)
	first.stream.Done()
	again := w.send(g, toolCall(`"j`+long+`"`, `{}`), "idempotency-key", "k")
	again.wantRefused(409, "idempotency_outcome_unknown") // over the cap of the policy, before its id has ended
	if !strings.Contains(again.reply, `"id":"j`+long+`"`) {
		t.Error("the refusal lacks the caller's id")
	}
	again.stream.Done()
	other := w.send(g, `{"jsonrpc":"2.0","id":"`+long+`","method":"tools/list"}`)
	other.wantSent()
	for name, x := range map[string]*exchange{"answered": first, "refused": again, "passed": other} {
		if n := kept(x); n > 1000 {
			t.Errorf("%s: a stream to be used again keeps %d bytes", name, n)
		}
	}
}

func TestLongIDsOfShortAnswers(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"server":"srv","anonymous":true,"advertise":true,"strip":true}},"default":"p"}`)
	id := `"` + strings.Repeat("é", 1000) + `"`
	body := strings.Replace(okResult, `"id":1`, `"id":`+strings.ReplaceAll(id, "é", `\u00e9`), 1)

	w.send(g, toolCall(id, `{}`), "idempotency-key", "k").answer(200, "application/json", body)
	w.send(g, toolCall("7", `{}`), "idempotency-key", "k").wantReplayed(strings.Replace(okResult, `"id":1`, `"id":7`, 1))

	// A fault after the call went on finds no id to answer with.
	x := w.send(g, toolCall(id, `{}`), "idempotency-key", "faulty")
	x.wantSent()
	x.panicsIn = "ResponseHeaders"
	x.begin(200, "application/json")
	if !strings.Contains(x.reply, `"id":null`) {
		t.Errorf("expected a refusal without an id, found %q", x.reply)
	}

	list := w.send(g, `{"jsonrpc":"2.0","id":`+id+`,"method":"initialize"}`)
	list.wantSent()
	list.begin(200, "application/json")
	list.chunk = []byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{"capabilities":{"tools":{}}}}`)
	list.stream.ResponseBody(len(list.chunk), true)
	if !strings.Contains(string(list.chunk), "idempotency") {
		t.Errorf("the answer of a long id gained no advert: %s", list.chunk)
	}
}

// A body from which a key was cut goes to the proxy, and is not kept beside it.
func TestStrippedBodyIsNotKept(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"server":"srv","anonymous":true,"strip":true}},"default":"p"}`)
	x := w.send(g, toolCall("1", `{"idempotency_key":"k","pad":"`+strings.Repeat("x", 100_000)+`"}`))
	x.wantSent()
	if len(x.body) < 100_000 || strings.Contains(string(x.body), "idempotency_key") {
		t.Fatalf("%d bytes went on", len(x.body))
	}
	if n := cap(x.stream.call.body); n > 0 {
		t.Errorf("a call in flight keeps %d bytes of its body", n)
	}
}
