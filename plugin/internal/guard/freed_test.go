package guard

import (
	"strings"
	"testing"
	"time"
)

// freeing are a tool's answers that say that nothing ran, and errors that name no request.
const freeing = `{"namespace":"ns","policies":{"p":{"reply":"http","server":"srv","anonymous":true,"tools":[{"match":"*","on_tool_error":"release","released_errors":[-32000]}]}},"default":"p"}`

// An answer that frees the key does so at its end, and not before: what follows it may be
// the call's result, and the key must not be free while the call runs.
func TestFreedAtTheEnd(t *testing.T) {
	const (
		unknown = "idempotency_outcome_unknown"
		replays = "replay"
		again   = ""
	)
	const legs = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`
	for name, c := range map[string]struct {
		first      string
		left       string // what a repeat is told where the client left after it
		cancelLate string // and where a cancellation passed between it and the end
	}{
		"an error without a name":      {parseError, unknown, unknown},
		"an error of the protocol":     {notRun, again, unknown},
		"an error of the policy":       {strings.Replace(notRun, "-32601", "-32000", 1), again, unknown},
		"a tool's error":               {toolError, again, unknown},
		"a question":                   {legs, again, again},
		"an error, and one without id": {notRun + "\n\ndata: " + parseError, again, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			g, other := w.worker(freeing), w.worker(freeing)
			told := func(key, want string) {
				t.Helper()
				switch r := w.send(other, toolCall("1", `{}`), "idempotency-key", key); want {
				case again:
					r.wantSent()
					r.answer(200, "application/json", okResult)
				case replays:
					r.wantReplayed(okResult)
				default:
					r.wantRefused(409, want)
				}
			}
			begin := func(key string) *exchange {
				x := w.send(g, toolCall("1", `{}`), "idempotency-key", key)
				x.begin(200, "text/event-stream")
				x.chunks("data: "+c.first+"\n\n", 30)
				told(key, "idempotency_in_flight")
				return x
			}
			end := func(x *exchange) {
				x.stream.ResponseBody(0, true)
				x.stream.Done()
			}
			x := begin("ends")
			end(x)
			told("ends", again)

			begin("left").stream.Done()
			told("left", c.left)

			x = begin("result")
			x.chunks("data: "+okResult+"\n\n", 30)
			told("result", replays)
			end(x)
			told("result", replays)

			// What came, and cannot be told, may have been the result.
			for key, more := range map[string]string{
				"odd":   `data: {"jsonrpc":"2.0","id":1,"id":1,"result":{}}` + "\n\n",
				"begun": "data: " + okResult + "\n",
			} {
				for _, ends := range []bool{true, false} {
					key := key + map[bool]string{true: "-ends", false: "-left"}[ends]
					x = begin(key)
					if x.chunks(more, 30); ends {
						x.stream.ResponseBody(0, true)
					}
					x.stream.Done()
					told(key, unknown)
				}
			}
			x = begin("another's")
			x.chunks(`data: {"jsonrpc":"2.0","id":2,"result":{}}`+"\n\n", 30)
			end(x)
			told("another's", again)

			x = begin("cancelled")
			w.pass(time.Millisecond)
			w.send(other, cancellation("1")).wantSent()
			end(x)
			told("cancelled", c.cancelLate)
		})
	}
}

// A body in chunks that begins with an error and goes on with another text was no error.
func TestFreedBodyGoesOn(t *testing.T) {
	for more, want := range map[string]string{"": "", " \r\n": "", okResult: "idempotency_outcome_unknown", "x": "idempotency_outcome_unknown"} {
		for _, first := range []string{notRun, parseError, toolError} {
			for _, n := range []int{1, 1000} {
				w := newWorld(t)
				g, other := w.worker(freeing), w.worker(freeing)
				x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
				x.begin(200, "application/json")
				x.chunks(first, n)
				w.send(other, toolCall("1", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_in_flight")
				x.chunks(more, n)
				x.stream.ResponseBody(0, true)
				x.stream.Done()
				if r := w.send(other, toolCall("1", `{}`), "idempotency-key", "k"); want == "" {
					r.wantSent()
				} else {
					r.wantRefused(409, want)
				}
			}
		}
	}
}

// The last byte of a body whose length is known frees the key.
func TestFreedWithTheLastByte(t *testing.T) {
	w := newWorld(t)
	g := w.worker(freeing)
	x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	x.begin(200, "application/json", "content-length", itoa(len(notRun)))
	x.chunks(notRun, 10)
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantSent()
}
