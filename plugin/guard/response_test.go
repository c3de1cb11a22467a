package guard

import (
	"strings"
	"testing"
	"time"
)

// The table of section 3 of the contract: what comes back for a claimed call, and
// what its repeat is told.
func TestWhatComesBack(t *testing.T) {
	const (
		replays = "replay"
		again   = "" // the repeat runs
		unknown = "idempotency_outcome_unknown"
		kept    = "idempotency_response_not_replayable"
	)
	padded := func(n int) string {
		frame := `{"jsonrpc":"2.0","id":1,"result":{"pad":""}}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", n-len(frame))+`"`, 1)
	}
	for _, c := range []struct {
		name    string
		status  int
		content string
		body    string
		headers []string
		want    string
	}{
		{"result", 200, "application/json", okResult, nil, replays},
		{"result with a length", 200, "application/json", okResult, []string{"content-length", "48"}, replays},
		{"result with parameters", 200, "Application/JSON; charset=utf-8", okResult, nil, replays},
		{"result at 201", 201, "application/json", okResult, nil, replays},
		{"JSON-RPC error", 200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}}`, nil, replays},
		{"cancelled", 200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}`, nil, unknown},
		{"cancelled, as Python 1 says it", 200, "text/event-stream", "data: " + `{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"Request cancelled"}}` + "\n\n", nil, unknown},
		{"an error of code 0", 200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"no funds"}}`, nil, replays},
		{"tool error", 200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[]}}`, nil, replays},
		{"events", 200, "text/event-stream", "event: message\ndata: " + okResult + "\n\n", nil, replays},
		{"events after others", 200, "text/event-stream;charset=utf-8", "data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\r\n\r\ndata: " + okResult + "\r\n\r\n: more\n\n", nil, replays},
		{"events, a request with our id first", 200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\"}\n\ndata: " + okResult + "\n\n", nil, replays},
		{"events, only a request with our id", 200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\"}\n\n", nil, unknown},
		{"events without the response", 200, "text/event-stream", "id: 1\ndata:\n\n", nil, unknown},
		{"events, cut in the event", 200, "text/event-stream", "data: " + okResult + "\n", nil, unknown},
		{"events, another id", 200, "text/event-stream", "data: " + strings.Replace(okResult, `"id":1`, `"id":2`, 1) + "\n\n", nil, unknown},
		{"events, refused by the strict reader", 200, "text/event-stream", `data: {"jsonrpc":"2.0","id":1,"result":{"s":1,"s":2}}` + "\n\n", nil, kept},
		{"exactly the cap", 200, "application/json", padded(2000), nil, replays},
		{"one over the cap", 200, "application/json", padded(2001), nil, kept},
		{"one over the cap, told by length", 200, "application/json", padded(2001), []string{"content-length", "2001"}, kept},
		{"event of exactly the cap", 200, "text/event-stream", "data: " + padded(2000) + "\n\n", nil, replays},
		{"event one over the cap", 200, "text/event-stream", "data: " + padded(2001) + "\n\n", nil, kept},
		{"encoded", 200, "application/json", okResult, []string{"content-encoding", "gzip"}, kept},
		{"encoded events", 200, "text/event-stream", "data: " + okResult + "\n\n", []string{"content-encoding", "br"}, kept},
		{"identity", 200, "application/json", okResult, []string{"content-encoding", "identity"}, replays},
		{"input required", 200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`, nil, again},
		{"input required in events", 200, "text/event-stream", `data: {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}` + "\n\n", nil, again},
		{"accepted", 202, "", "", nil, kept},
		{"no content", 204, "", "", nil, kept},
		{"found", 302, "text/html", "elsewhere", nil, kept},
		{"HTML", 200, "text/html", "<p>", nil, kept},
		{"broken JSON", 200, "application/json", `{"jsonrpc":"2.0","id":1,"result":`, nil, kept},
		{"JSON and more", 200, "application/json", okResult + "x", nil, kept},
		{"JSON and white space", 200, "application/json", okResult + " \r\n", nil, replays},
		{"another id", 200, "application/json", strings.Replace(okResult, `"id":1`, `"id":"1"`, 1), nil, kept},
		{"no id", 200, "application/json", `{"jsonrpc":"2.0","result":{}}`, nil, kept},
		{"neither result nor error", 200, "application/json", `{"jsonrpc":"2.0","id":1}`, nil, kept},
		{"a duplicate member", 200, "application/json", `{"jsonrpc":"2.0","id":1,"id":1,"result":{}}`, nil, kept},
		{"a depth of 200", 200, "application/json", `{"jsonrpc":"2.0","id":1,"result":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, nil, kept},
		{"bad request", 400, "application/json", okResult, nil, again},
		{"unauthorized", 401, "", "", nil, again},
		{"conflict", 409, "application/json", "{}", nil, again},
		{"request timeout", 408, "", "", nil, unknown},
		{"client closed request", 499, "", "", nil, unknown},
		{"server error", 500, "text/html", "<h1>oops</h1>", nil, unknown},
		{"unavailable", 503, "", "", nil, unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			g, other := w.worker(plain), w.worker(plain)
			first := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
			first.wantSent()
			first.answer(c.status, c.content, c.body, c.headers...)
			for _, repeat := range []*Guard{g, other} {
				x := w.send(repeat, toolCall("22", `{}`), "idempotency-key", "k")
				switch c.want {
				case replays:
					// The message itself: from the beginning of the response to its last brace.
					at := strings.LastIndex(c.body, `{"jsonrpc":"2.0","id":1,`)
					message := c.body[at : strings.LastIndex(c.body, "}")+1]
					if x.status != c.status {
						t.Errorf("status of the replay: expected %d, found %d", c.status, x.status)
					}
					x.reply = strings.TrimSpace(x.reply)
					x.wantReplayed(strings.Replace(message, `"id":1`, `"id":22`, 1))
				case again:
					x.wantSent()
					return
				default:
					x.wantRefused(409, c.want)
				}
			}
		})
	}
}

// Whatever ends a claimed call without an answer leaves an unknown outcome, at
// whatever point it comes.
func TestCutShort(t *testing.T) {
	for name, play := range map[string]func(x *exchange){
		"before the headers": func(x *exchange) {},
		"after the headers":  func(x *exchange) { x.begin(200, "application/json") },
		"within a body":      func(x *exchange) { x.begin(200, "application/json"); x.chunks(okResult[:20], 5) },
		"within its length": func(x *exchange) {
			x.begin(200, "application/json", "content-length", "48")
			x.chunks(okResult[:47], 9)
		},
		"within an event":     func(x *exchange) { x.begin(200, "text/event-stream"); x.chunks("data: "+okResult+"\n", 9) },
		"within an oversize":  func(x *exchange) { x.begin(200, "application/json"); x.chunks(strings.Repeat(" ", 3000), 500) },
		"within an encoded":   func(x *exchange) { x.begin(200, "application/json", "content-encoding", "gzip"); x.chunks("zzzz", 2) },
		"within an HTML page": func(x *exchange) { x.begin(200, "text/html"); x.chunks("<p>", 2) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			g := w.worker(plain)
			x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
			x.wantSent()
			play(x)
			x.stream.Done()
			w.send(g, toolCall("2", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_outcome_unknown")
			if n := w.count("how=.=outcome_unknown", "callonce_settled_total"); n != 1 {
				t.Errorf("counted %d unknown outcomes, expected 1", n)
			}
		})
	}
}

// A key is settled with the last byte of the message, before the stream's end.
func TestSettledWithTheLastByte(t *testing.T) {
	for name, begin := range map[string][]string{
		"chunked":       {"application/json", okResult},
		"with a length": {"application/json", okResult, "content-length", "48"},
		"events":        {"text/event-stream", "data: " + okResult + "\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			g := w.worker(plain)
			x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
			x.begin(200, begin[0], begin[2:]...)
			x.chunks(begin[1][:len(begin[1])-1], 100)
			w.send(g, toolCall("2", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_in_flight")
			x.chunks(begin[1][len(begin[1])-1:], 1)
			w.send(g, toolCall("3", `{}`), "idempotency-key", "k").wantReplayed(strings.Replace(okResult, `"id":1`, `"id":3`, 1))
			x.stream.Done() // the client leaves with the answer in hand
			w.send(g, toolCall("4", `{}`), "idempotency-key", "k").wantReplayed(strings.Replace(okResult, `"id":1`, `"id":4`, 1))
		})
	}
}

// A body of unknown length is judged where its value ends. Should more than white space
// follow, it was no JSON text, and the holder takes its word back.
func TestMoreAfterTheBody(t *testing.T) {
	for after, replayed := range map[string]bool{" \r\n\t ": true, "x": false, " {}": false, "\n\n]": false} {
		for _, n := range []int{1, 100} {
			w := newWorld(t)
			g := w.worker(plain)
			x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
			x.begin(200, "application/json")
			x.chunks(okResult, 100)
			w.send(g, toolCall("2", `{}`), "idempotency-key", "k").wantReplayed(strings.Replace(okResult, `"id":1`, `"id":2`, 1))
			x.chunks(after, n)
			x.stream.ResponseBody(0, true)
			x.stream.Done()
			if again := w.send(g, toolCall("3", `{}`), "idempotency-key", "k"); replayed {
				again.wantReplayed(strings.Replace(okResult, `"id":1`, `"id":3`, 1))
			} else {
				again.wantRefused(409, "idempotency_response_not_replayable")
			}
		}
	}
}

// A holder that was silent for longer than its lease has lost the key: its late word
// is refused and counted, once.
func TestLateHolder(t *testing.T) {
	w := newWorld(t)
	g, other := w.worker(plain), w.worker(plain)
	x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	w.pass(16 * time.Second)
	w.send(other, toolCall("2", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_outcome_unknown")
	x.answer(200, "application/json", okResult)
	w.send(other, toolCall("3", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_outcome_unknown")
	for how, want := range map[string]uint64{"fenced": 1, "orphaned": 1, "completed": 0} {
		if got := w.count("callonce_settled_total", "how=.="+how); got != want {
			t.Errorf("%s: counted %d, expected %d", how, got, want)
		}
	}
}
