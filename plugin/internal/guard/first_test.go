package guard

import (
	"fmt"
	"testing"
)

// However an answer comes, in one chunk or byte by byte, with its end or before it, it settles as the same; and what follows a whole one
// is seen.
func TestAnswerWholeInItsFirstChunk(t *testing.T) {
	const result, failure = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"}"}]}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m"}}`
	for _, body := range []string{
		result, " " + result + "\n", result + "x", result + " " + result, result + "}", "[" + result + "]", result[:len(result)-1], result[:60],
		failure, failure + " ", `{"jsonrpc":"2.0","id":2,"result":{}}`, `{"jsonrpc":"2.0","method":"m"}`, `{"id":1,"id":1,"result":{}}`, `{}`, `[]`, `"}"`, `{`, `}`, " ", "1",
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`,
	} {
		for n := range len(body) + 1 {
			var settled [4]string
			for i, play := range []func(x *exchange){
				func(x *exchange) { // all in one chunk, the end behind it
					x.chunks(body, len(body))
					x.stream.ResponseBody(0, true)
				},
				func(x *exchange) { // with the end
					x.chunk = []byte(body)
					x.stream.ResponseBody(len(body), true)
				},
				func(x *exchange) {
					x.chunks(body, 1)
					x.stream.ResponseBody(0, true)
				},
				func(x *exchange) { // in two
					x.chunks(body[:n], len(body))
					x.chunks(body[n:], len(body))
					x.stream.ResponseBody(0, true)
				},
			} {
				w := newWorld(t)
				g := w.worker(plain)
				x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
				x.begin(200, "application/json")
				play(x)
				x.stream.Done()
				again := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
				settled[i] = fmt.Sprintf("%s by %s, then %s %s", x.state[stateSettled], x.state[stateSettledBy], again.state[stateOutcome], again.reply)
			}
			if settled[0] != settled[1] || settled[0] != settled[2] || settled[0] != settled[3] {
				t.Fatalf("%q, in two at %d: %.60q", body, n, settled)
			}
		}
	}
}

// A first chunk of more than may be kept is not kept because it is whole.
func TestLongFirstChunk(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	x.begin(200, "application/json")
	x.chunks(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"t":"%02001d"}}`, 1), 1<<20)
	x.stream.ResponseBody(0, true)
	x.stream.Done()
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_response_not_replayable")
}
