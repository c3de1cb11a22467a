package guard

import (
	"strconv"
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
	long := func(frame string) string { return strings.Replace(frame, "$", strings.Repeat("x", 3000), 1) }
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
		{"events, one that can be read two ways", 200, "text/event-stream", `data: {"jsonrpc":"2.0","id":1,"result":{},"result":1}` + "\n\n", nil, kept},
		{"events, a lone surrogate in the result", 200, "text/event-stream", `data: {"jsonrpc":"2.0","id":1,"result":{"s":"\ud800"}}` + "\n\n", nil, replays},
		{"a NaN and a lone surrogate in the result", 200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"s":"\ud800","n":[NaN,-Infinity]}}`, nil, replays},
		{"white space before the message", 200, "application/json", " \r\n\t" + okResult, nil, replays},
		{"more white space than the cap before it", 200, "application/json", strings.Repeat(" \n", 1500) + okResult, nil, replays},
		{"the same, with a length", 200, "application/json", strings.Repeat(" \n", 1500) + okResult, []string{"content-length", strconv.Itoa(3000 + len(okResult))}, replays},
		{"more white space than the cap behind it", 200, "application/json", okResult + strings.Repeat(" \n", 1500), nil, replays},
		{"the same, with its length", 200, "application/json", okResult + strings.Repeat(" \n", 1500), []string{"content-length", strconv.Itoa(3000 + len(okResult))}, replays},
		{"a byte order mark", 200, "application/json", "\uFEFF" + okResult, nil, replays},
		{"events, comments beyond the cap", 200, "text/event-stream", strings.Repeat(": ping\n", 500) + ":" + strings.Repeat("x", 3000) + "\ndata: " + okResult + "\n" + strings.Repeat(":\n", 1500) + "\n", nil, replays},
		{"events, white space beyond the cap", 200, "text/event-stream", "data:" + strings.Repeat(" ", 3000) + okResult + "\n" + strings.Repeat("data:  \n", 1500) + "\n", nil, replays},
		{"an error that frees the key", 200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"consent"}}`, nil, again},
		{"a parse error", 200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`, nil, again},
		{"an invalid request", 200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid Request"}}`, nil, again},
		{"an unknown method, in events", 200, "text/event-stream", `data: {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}` + "\n\n", nil, again},
		{"consent, in events", 200, "text/event-stream", `data: {"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"consent"}}` + "\n\n", nil, again},
		{"an error of another code", 200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"x"}}`, nil, replays},
		{"exactly the cap", 200, "application/json", padded(2000), nil, replays},
		{"one over the cap", 200, "application/json", padded(2001), nil, kept},
		{"one over the cap, told by length", 200, "application/json", padded(2001), []string{"content-length", "2001"}, kept},
		{"event of exactly the cap", 200, "text/event-stream", "data: " + padded(2000) + "\n\n", nil, replays},
		{"event one over the cap", 200, "text/event-stream", "data: " + padded(2001) + "\n\n", nil, kept},
		{"an error over the cap", 200, "application/json", long(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"$"}}`), nil, kept},
		{"an error over the cap that frees the key", 200, "application/json", long(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"$"}}`), nil, again},
		{"the same, with a length", 200, "application/json", long(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"$"}}`), []string{"content-length", "3060"}, again},
		{"the same, in events", 200, "text/event-stream", "data: " + long(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"$"}}`) + "\n\n", nil, again},
		{"the same, the id last", 200, "application/json", long(`{"jsonrpc":"2.0","error":{"code":-32601,"message":"$"},"id":1}`), nil, again},
		{"the same, cut short", 200, "application/json", long(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"$`), nil, unknown},
		{"the same, and more", 200, "application/json", long(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"$"}}`) + okResult, nil, unknown},
		{"an error over the cap whose code is there too late", 200, "application/json", long(`{"jsonrpc":"2.0","id":1,"error":{"message":"$","code":-32601}}`), nil, kept},
		{"a question over the cap", 200, "application/json", long(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","x":"$"}}`), nil, again},
		{"the result last, over the cap", 200, "application/json", long(`{"x":"$","jsonrpc":"2.0","id":1,"result":{}}`), nil, unknown},
		{"another's, over the cap", 200, "application/json", long(`{"jsonrpc":"2.0","id":2,"result":{"x":"$"}}`), nil, unknown},
		{"a page over the cap, as JSON", 200, "application/json", long(`<html>$</html>`), nil, unknown},
		{"an error without a name", 200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}`, nil, unknown},
		{"the same, in events", 200, "text/event-stream", `data: {"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}` + "\n\n", nil, unknown},
		{"an error without a name that frees the key", 200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"x"}}`, nil, again},
		{"an error under Python's name", 200, "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"x"}}`, nil, again},
		{"another's error", 200, "application/json", `{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"x"}}`, nil, unknown},
		{"a result under Python's name", 200, "application/json", `{"jsonrpc":"2.0","id":"server-error","result":{}}`, nil, unknown},
		{"no error of the protocol", 200, "application/json", `{"error":"unauthorized"}`, nil, unknown},
		{"a result and an error", 200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":-32601}}`, nil, kept},
		{"a result cut short, and the end", 200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"content":[`, nil, unknown},
		{"two results", 200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`, nil, kept},
		{"two results in events", 200, "text/event-stream", `data: {"jsonrpc":"2.0","id":1,"result":{},"result":{}}` + "\n\n", nil, kept},
		{"two ids in events", 200, "text/event-stream", `data: {"jsonrpc":"2.0","id":1,"id":1,"result":{}}` + "\n\n", nil, unknown},
		{"an encoded page", 200, "text/html", "<p>", []string{"content-encoding", "gzip"}, unknown},
		{"encoded", 200, "application/json", okResult, []string{"content-encoding", "gzip"}, kept},
		{"encoded events", 200, "text/event-stream", "data: " + okResult + "\n\n", []string{"content-encoding", "br"}, kept},
		{"identity", 200, "application/json", okResult, []string{"content-encoding", "identity"}, replays},
		{"input required", 200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`, nil, again},
		{"input required in events", 200, "text/event-stream", `data: {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}` + "\n\n", nil, again},
		{"accepted", 202, "", "", nil, unknown},
		{"no content", 204, "", "", nil, unknown},
		{"multiple choices", 300, "text/html", "choose", nil, unknown},
		{"moved for good", 301, "text/html", "elsewhere", nil, unknown},
		{"found", 302, "text/html", "elsewhere", nil, unknown},
		{"see other", 303, "", "", nil, unknown},
		{"not modified", 304, "", "", nil, unknown},
		{"use proxy", 305, "", "", nil, unknown},
		{"redirected for now", 307, "text/html", "elsewhere", nil, again},
		{"redirected for good", 308, "application/json", okResult, nil, again},
		{"HTML", 200, "text/html", "<p>", nil, unknown},
		{"broken JSON", 200, "application/json", `{"jsonrpc":"2.0","id":1,"result":`, nil, unknown},
		{"JSON and more", 200, "application/json", okResult + "x", nil, kept},
		{"JSON and white space", 200, "application/json", okResult + " \r\n", nil, replays},
		{"another id", 200, "application/json", strings.Replace(okResult, `"id":1`, `"id":"1"`, 1), nil, unknown},
		{"no id", 200, "application/json", `{"jsonrpc":"2.0","result":{}}`, nil, unknown},
		{"neither result nor error", 200, "application/json", `{"jsonrpc":"2.0","id":1}`, nil, unknown},
		{"a duplicate member", 200, "application/json", `{"jsonrpc":"2.0","id":1,"id":1,"result":{}}`, nil, unknown},
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

// An answer in a stream that is over the cap is told at once, by its beginning, and not
// at the stream's end; one that does not even end leaves an unknown outcome. What is too
// long and no answer to us changes nothing.
func TestOverTheCapInAStream(t *testing.T) {
	const (
		id, running = "idempotency_response_not_replayable", "idempotency_in_flight"
		unknown     = "idempotency_outcome_unknown"
	)
	long := strings.Repeat("x", 3000)
	response := "data: " + okResult + "\n\n"
	for _, c := range []struct {
		name, event     string
		early, end, cut string // what a repeat is told within the event, after the whole stream, and where it breaks within
	}{
		{"the id first", `{"jsonrpc":"2.0","id":1,"result":{"pad":"` + long + `"}}`, id, id, unknown},
		{"the result first", `{"result":{"pad":"` + long + `"},"jsonrpc":"2.0","id":1}`, id, id, unknown},
		{"an error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"` + long + `"}}`, id, id, unknown},
		{"no answer", `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + long + `"}}`, running, "", unknown},
		{"another's answer", `{"jsonrpc":"2.0","id":2,"result":{"pad":"` + long + `"}}`, running, "", unknown},
		{"who knows", `{"params":{"data":"` + long + `"},"method":"notifications/message"}`, running, "", unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{7, 100_000} {
				w := newWorld(t)
				g, other := w.worker(plain), w.worker(plain)
				told := func(when, key, want string) {
					t.Helper()
					if again := w.send(other, toolCall("3", `{}`), "idempotency-key", key); want != "" {
						again.wantRefused(409, want)
					} else {
						again.wantReplayed(strings.Replace(okResult, `"id":1`, `"id":3`, 1))
					}
				}
				begin := func(key string) *exchange {
					x := w.send(g, toolCall("1", `{}`), "idempotency-key", key)
					x.begin(200, "text/event-stream")
					x.chunks(": hello\n\ndata: "+c.event[:2900], size)
					told("in the event", key, c.early)
					return x
				}
				x := begin("k")
				x.chunks(c.event[2900:]+"\n\n"+response, size)
				told("after it", "k", c.end)
				x.stream.ResponseBody(0, true)
				x.stream.Done()
				told("at the end", "k", c.end)

				x = begin("ends-within")
				x.stream.ResponseBody(0, true)
				x.stream.Done()
				told("cut by the server", "ends-within", c.cut)
				x = begin("breaks-within")
				x.stream.Done()
				told("broken", "breaks-within", c.cut)
			}
		})
	}
	// Where nothing better comes, nobody knows what it was that could not be told apart.
	w := newWorld(t)
	g := w.worker(plain)
	x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	x.answer(200, "text/event-stream", `data: {"x":"`+long+`","jsonrpc":"2.0","id":1,"result":{}}`+"\n\n")
	w.send(g, toolCall("2", `{}`), "idempotency-key", "k").wantRefused(409, unknown)
}

// A batch of one message is that message; it is replayed as it came.
func TestBatchOfOne(t *testing.T) {
	for _, content := range []string{"application/json", "text/event-stream"} {
		w := newWorld(t)
		g := w.worker(strings.Replace(plain, `"server"`, `"marker":"meta","server"`, 1))
		x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
		body := ` [ {"jsonrpc":"2.0","id":1,"result":{"t":"\ud83d"}} ] `
		if content == "text/event-stream" {
			body = "data: " + body + "\n\n"
		}
		x.answer(200, content, body)
		w.send(g, toolCall("2", `{}`), "idempotency-key", "k").wantReplayed(`[ {"jsonrpc":"2.0","id":2,"result":{"_meta":{"callonce.dev/replayed":true},"t":"\ud83d"}} ]`)
	}
}

// Further errors that free a key are a policy's or a tool's.
func TestReleasedErrors(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"namespace":"ns","policies":{"p":{"server":"srv","anonymous":true,"released_errors":[-32602],
		"tools":[{"match":"charge","released_errors":[-32000]},{"match":"*"}]}},"default":"p"}`)
	for _, c := range []struct {
		tool string
		code string
		runs bool
	}{
		{"charge", "-32602", true}, {"charge", "-32000", true}, {"charge", "-32603", false}, {"charge", "-32042", true},
		{"other", "-32602", true}, {"other", "-32000", false}, {"other", "-32601", true},
	} {
		body := strings.Replace(toolCall("1", `{}`), "charge", c.tool, 1)
		w.send(g, body, "idempotency-key", c.tool+c.code).answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":`+c.code+`,"message":"x"}}`)
		if again := w.send(g, body, "idempotency-key", c.tool+c.code); again.sent != c.runs {
			t.Errorf("%s, %s: the repeat ran: %v, expected %v", c.tool, c.code, again.sent, c.runs)
		}
	}
	if n := w.count("callonce_settled_total", "how=.=released"); n != 5 {
		t.Errorf("%d counted as released, expected 5", n)
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

// Each status that a server may send makes of the key what section 3 of the contract says.
func TestEveryStatus(t *testing.T) {
	for status := 100; status < 600; status++ {
		w := newWorld(t)
		g := w.worker(`{"policies":{"p":{"server":"srv","anonymous":true,"released_statuses":[503]}},"default":"p"}`)
		want := "outcome_unknown"
		switch {
		case status >= 200 && status < 300:
			want = "completed"
		case status == 307, status == 308, status == 503:
			want = "released"
		case status >= 400 && status < 500 && status != 408 && status != 499:
			want = "released"
		}
		x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
		x.wantSent()
		x.answer(status, "application/json", okResult)
		if all, this := w.count("callonce_settled_total"), w.count("callonce_settled_total", "how=.="+want+";"); all != 1 || this != 1 {
			t.Errorf("status %d: settled %d times, %d times as %s", status, all, this, want)
		}
	}
}
