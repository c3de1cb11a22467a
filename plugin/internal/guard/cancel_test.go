package guard

import (
	"strings"
	"testing"
	"time"
)

func cancellation(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"the user left"}}`
}

const (
	toolError  = `{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[{"type":"text","text":"context canceled"}]}}`
	callError  = `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"stopped"}}`
	notRun     = `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method"}}`
	parseError = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`
)

// release is plain for a tool whose errors free the key, and keyed in headers only: what
// passes is not buffered.
const (
	release    = `{"namespace":"ns","policies":{"p":{"reply":"http","server":"srv","principal":["header:x-user"],"anonymous":true,"limits":{"reply_bytes":2000},"tools":[{"match":"*","on_tool_error":"release"}]}},"default":"p"}`
	headerKeys = `{"namespace":"ns","policies":{"p":{"reply":"http","server":"srv","keys":["header:idempotency-key"],"principal":["header:x-user"],"anonymous":true,"tools":[{"match":"*","on_tool_error":"release"}]}},"default":"p"}`
	mustRead   = `{"namespace":"ns","policies":{"p":{"reply":"http","server":"srv","anonymous":true,"tools":[{"match":"*","guard":"required"}]}},"default":"p"}`
)

// Whatever is no result and arrives for a call whose cancellation passed, through whatever
// worker, is no outcome: an error, an answer that says nothing. A real result completes.
func TestCancelledThenAnswered(t *testing.T) {
	const (
		unknown = "idempotency_outcome_unknown"
		replays = "replay"
		again   = ""
	)
	events := func(message string) string { return "data: " + message + "\n\n" }
	for _, c := range []struct {
		name, content, body string
		status              int
		cancelled, not      string // what a repeat is told; not = where nobody cancelled it
	}{
		{"a tool's error", "application/json", toolError, 200, unknown, again},
		{"a tool's error in events", "text/event-stream", events(toolError), 200, unknown, again},
		{"an error", "application/json", callError, 200, unknown, replays},
		{"an error in events", "text/event-stream", events(callError), 200, unknown, replays},
		{"an error that frees the key", "application/json", notRun, 200, unknown, again},
		{"a parse error", "text/event-stream", events(parseError), 200, unknown, again},
		{"an error's status", "application/json", callError, 400, unknown, again},
		{"accepted", "", "", 202, unknown, unknown},
		{"nothing for us", "application/json", `[]`, 200, unknown, unknown},
		{"an error over the cap", "application/json", strings.Replace(callError, "stopped", strings.Repeat("x", 3000), 1), 200, unknown, "idempotency_response_not_replayable"},
		{"an error over the cap in events", "text/event-stream", events(strings.Replace(callError, "stopped", strings.Repeat("x", 3000), 1)), 200, unknown, "idempotency_response_not_replayable"},
		{"a result", "application/json", okResult, 200, replays, replays},
		{"a result in events", "text/event-stream", events(okResult), 200, replays, replays},
		{"another leg", "application/json", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`, 200, again, again},
		{"sent elsewhere", "", "", 307, again, again},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, cancels := range []bool{true, false} {
				w := newWorld(t)
				g, other := w.worker(release), w.worker(release)
				x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k", "mcp-session-id", "s")
				w.pass(time.Millisecond)
				want := c.not
				if cancels {
					want = c.cancelled
					w.send(other, cancellation("1"), "mcp-session-id", "s").wantSent()
				}
				x.answer(c.status, c.content, c.body)
				repeat := w.send(g, toolCall("1", `{}`), "idempotency-key", "k", "mcp-session-id", "s")
				switch want {
				case again:
					repeat.wantSent()
				case replays:
					if repeat.sent || repeat.headers["idempotency-replayed"] != "true" {
						t.Errorf("cancelled %v: expected a replay, found sent %v, %d %s", cancels, repeat.sent, repeat.status, repeat.reply)
					}
				default:
					repeat.wantRefused(409, want)
				}
			}
		})
	}
}

// Each way in which a cancellation passes is seen, under each kind of policy; what is
// none, or another's, touches nothing.
func TestWhatCancels(t *testing.T) {
	batch := "[" + cancellation("1") + `,{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]`
	long := strings.Replace(cancellation("1"), "the user left", strings.Repeat("x", 5000), 1)
	for _, c := range []struct {
		name, config, id, body string
		headers                []string // besides those of the call
		cancels                bool
	}{
		{"as it is", release, "1", cancellation("1"), nil, true},
		{"keys in headers only", headerKeys, "1", cancellation("1"), nil, true},
		{"keys in headers only, long", headerKeys, "1", long, nil, true},
		{"keys in headers only, too long", headerKeys, "1", strings.Replace(long, "x", "xx", -1), nil, false},
		{"a policy that must guard", mustRead, "1", cancellation("1"), nil, true},
		{"with a key header", release, "1", cancellation("1"), []string{"idempotency-key", "k"}, true},
		{"a batch", release, "1", batch, nil, true},
		{"a batch, keys in headers only", headerKeys, "1", batch, nil, true},
		{"with its routing header", release, "1", cancellation("1"), []string{"mcp-method", "notifications/cancelled"}, true},
		{"with another routing header", release, "1", cancellation("1"), []string{"mcp-method", "ping"}, true},
		{"in escapes", release, "1", strings.Replace(cancellation("1"), "notifications/cancelled", `notifications\/cancelled`, 1), nil, true},
		{"in escapes, keys in headers only", headerKeys, "1", strings.Replace(cancellation("1"), "notifications/cancelled", `notifications\/cancelled`, 1), nil, true},
		{"params before the method", release, "1", `{"params":{"requestId":1},"method":"notifications/cancelled"}`, nil, true},
		{"a name in another case", release, "1", strings.Replace(cancellation("1"), "requestId", "requestID", 1), nil, true},
		{"a reason with half a character", release, "1", strings.Replace(cancellation("1"), "left", `\ud83d`, 1), nil, true},
		{"the id twice", release, "1", strings.Replace(cancellation("1"), `"requestId":1`, `"requestId":2,"requestId":1`, 1), nil, true},
		{"a string", release, `"a-1"`, cancellation(`"a-1"`), nil, true},
		{"a string in escapes", release, `"\u0061-1"`, cancellation(`"a-1"`), nil, true},
		{"a number by value", release, "1", cancellation("1.0"), nil, true},
		{"a huge number by value", release, "1000000000000000000000", cancellation("1e21"), nil, true},
		{"a long id", release, `"` + strings.Repeat("i", 2000) + `"`, cancellation(`"` + strings.Repeat("i", 2000) + `"`), nil, true},

		{"another type of JSON", release, "1", cancellation("1"), []string{"content-type", "application/json-rpc"}, true},
		{"a list of types, keys in headers only", headerKeys, "1", cancellation("1"), []string{"content-type", "application/json, application/json"}, true},
		{"no type, with a key header", release, "1", cancellation("1"), []string{"content-type", "(none)", "idempotency-key", "k"}, true},
		{"bytes", release, "1", cancellation("1"), []string{"content-type", "application/octet-stream"}, true},

		{"a byte order mark", release, "1", "\xef\xbb\xbf" + cancellation("1"), nil, true},
		{"NaN before the id", release, "1", strings.Replace(cancellation("1"), `{"requestId"`, `{"p":NaN,"requestId"`, 1), nil, true},
		{"a duplicate before the id", release, "1", strings.Replace(cancellation("1"), `{"requestId"`, `{"reason":"","reason":"","requestId"`, 1), nil, true},
		{"a text in Latin-1 before the id", release, "1", strings.Replace(cancellation("1"), `{"requestId"`, "{\"x\":\"\xfc\",\"requestId\"", 1), []string{"content-type", "application/json; charset=iso-8859-1"}, true},
		{"UTF-16", release, "1", inUTF16(cancellation("1")), nil, true},
		{"UTF-16 under no type", release, "1", "\xff\xfe" + inUTF16(cancellation("1")), []string{"content-type", "(none)"}, true},
		{"letters in escapes", release, "1", strings.Replace(cancellation("1"), "cancelled", `\u0063ancelled`, 1), nil, true},
		{"something behind it", release, "1", cancellation("1") + "}", nil, true},
		{"a byte order mark, keys in headers only", headerKeys, "1", "\xef\xbb\xbf" + cancellation("1"), nil, true},
		{"NaN before the id, keys in headers only", headerKeys, "1", strings.Replace(cancellation("1"), `{"requestId"`, `{"p":NaN,"requestId"`, 1), nil, true},
		{"a duplicate before the id, keys in headers only", headerKeys, "1", strings.Replace(cancellation("1"), `{"requestId"`, `{"reason":"","reason":"","requestId"`, 1), nil, true},
		{"a text in Latin-1 before the id, keys in headers only", headerKeys, "1", strings.Replace(cancellation("1"), `{"requestId"`, "{\"x\":\"\xfc\",\"requestId\"", 1), []string{"content-type", "application/json; charset=iso-8859-1"}, true},
		{"UTF-16, keys in headers only", headerKeys, "1", inUTF16(cancellation("1")), nil, true},
		{"UTF-16 under no type, keys in headers only", headerKeys, "1", "\xff\xfe" + inUTF16(cancellation("1")), []string{"content-type", "(none)"}, true},
		{"letters in escapes, keys in headers only", headerKeys, "1", strings.Replace(cancellation("1"), "cancelled", `\u0063ancelled`, 1), nil, true},
		{"something behind it, keys in headers only", headerKeys, "1", cancellation("1") + "}", nil, true},
		{"broken, another notification", release, "1", strings.Replace(cancellation("1"), "/cancelled", "/progress", 1) + "}", nil, false},
		{"broken, another session", release, "1", cancellation("1") + "}", []string{"mcp-session-id", "t"}, false},
		{"broken, another principal", release, "1", cancellation("1") + "}", []string{"x-user", "eve"}, false},

		{"a string for a number", release, "1", cancellation(`"1"`), nil, false},
		{"a number for a string", release, `"1"`, cancellation("1"), nil, false},
		{"another id", release, "1", cancellation("2"), nil, false},
		{"another session", release, "1", cancellation("1"), []string{"mcp-session-id", "t"}, false},
		{"no session", release, "1", cancellation("1"), []string{"mcp-session-id", "(none)"}, false},
		{"another principal", release, "1", cancellation("1"), []string{"x-user", "eve"}, false},
		{"other credentials", mustRead, "1", cancellation("1"), []string{"authorization", "eve"}, false},
		{"another server's path", release, "1", cancellation("1"), []string{":path", "/other"}, false},
		{"another notification", release, "1", strings.Replace(cancellation("1"), "/cancelled", "/progress", 1), nil, false},
		{"a request that speaks of it", release, "1", `{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":` + cancellation("1") + `}}`, nil, false},
		{"an answer", release, "1", `{"jsonrpc":"2.0","id":5,"result":` + cancellation("1") + `}`, nil, false},
		{"an id that is none", release, "1", cancellation("[1]"), nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{0, 1, 100} {
				w := newWorld(t)
				g, other := w.worker(c.config), w.worker(c.config)
				call := toolCall(c.id, `{}`)
				headers := []string{"idempotency-key", "k"}
				for _, h := range [][2]string{{"x-user", "ada"}, {"mcp-session-id", "s"}} {
					headers = append(headers, h[0], h[1])
				}
				x := w.send(g, call, headers...)
				x.wantSent()
				w.pass(time.Millisecond)
				n := w.open(other, cancelHeaders(c.headers)...)
				n.inPieces(c.body, size)
				n.wantSent()
				x.answer(200, "application/json", strings.Replace(toolError, `"id":1`, `"id":`+c.id, 1))
				repeat := w.send(other, call, headers...)
				unknown := strings.Contains(repeat.reply, "idempotency_outcome_unknown")
				if unknown != c.cancels {
					t.Errorf("in pieces of %d: outcome unknown %v, expected %v: sent %v, %d %s", size, unknown, c.cancels, repeat.sent, repeat.status, repeat.reply)
				}
				if got := string(n.body); got != c.body {
					t.Errorf("the server got %.100s", got)
				}
			}
		})
	}
}

func inUTF16(ascii string) string { return strings.Join(strings.Split(ascii, ""), "\x00") + "\x00" }

// cancelHeaders are those of the notification: the caller's and the session's, unless
// others are named.
func cancelHeaders(others []string) []string {
	out := append([]string(nil), others...)
	for _, h := range [][2]string{{"x-user", "ada"}, {"mcp-session-id", "s"}} {
		named := false
		for i := 0; i < len(others); i += 2 {
			named = named || others[i] == h[0]
		}
		if !named {
			out = append(out, h[0], h[1])
		}
	}
	return out
}

// inPieces gives headers and a body in pieces of so many bytes, 0 for whole, its end as a
// callback of its own. What passes is not gathered; what is buffered is.
func (x *exchange) inPieces(body string, size int) {
	if size == 0 {
		size = len(body)
	}
	x.body = []byte(body)
	x.sent = x.stream.RequestHeaders(false) == Continue
	x.gone = x.sent
	for at := 0; at < len(body) && x.status == 0; at += size {
		end := min(at+size, len(body))
		if x.sent {
			x.body = []byte(body[at:end])
			if x.stream.RequestBody(end-at, false) == Pause {
				x.t.Fatal("a request that goes on was held")
			}
			continue
		}
		x.body = []byte(body)
		x.sent = x.stream.RequestBody(end, false) == Continue
	}
	if n := len(body); x.status == 0 && !x.sent {
		x.sent = x.stream.RequestBody(n, true) == Continue
	} else if x.status == 0 {
		x.body = nil
		x.stream.RequestBody(0, true)
	}
	x.body = []byte(body)
	x.stream.Done()
}

// A mark touches neither the calls of the same id before it nor those after it.
func TestMarksDoNotLast(t *testing.T) {
	w := newWorld(t)
	g := w.worker(release)
	first := w.send(g, toolCall("1", `{}`), "idempotency-key", "a")
	w.pass(time.Millisecond)
	w.send(g, cancellation("1")).wantSent()
	first.answer(200, "application/json", toolError)
	w.send(g, toolCall("1", `{}`), "idempotency-key", "a").wantRefused(409, "idempotency_outcome_unknown")
	w.pass(time.Millisecond)
	for range 3 {
		x := w.send(g, toolCall("1", `{}`), "idempotency-key", "b")
		x.wantSent()
		w.pass(time.Millisecond)
		x.answer(200, "application/json", toolError)
	}
	// With no call in flight a cancellation leaves nothing. (Until the next tick a worker
	// keeps the room of a few of those that were.)
	g.Tick(w.now)
	keys := len(w.memory.values)
	for _, id := range []string{"7", "8", "9"} {
		w.send(g, cancellation(id)).wantSent()
	}
	if got := len(w.memory.values); got != keys {
		t.Errorf("%d records in shared data from cancellations of nothing", got-keys)
	}
}

// Where nothing is in flight, nothing is read of what passes. Where something is, what
// passes is over with its body.
func TestWatchingCostsLittle(t *testing.T) {
	w := newWorld(t)
	g, other := w.worker(headerKeys), w.worker(headerKeys)
	bodies := []string{toolCall("1", `{}`), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, strings.Repeat("x", 20000)}
	for _, body := range bodies {
		x := w.open(g)
		x.panicsIn = "RequestHeaders"
		x.sent = x.stream.RequestHeaders(false) == Continue
		x.wantSent()
		if x.panicsIn == "" || !x.stream.Finished() {
			t.Errorf("%.60s: headers were read, or the stream is not over", body)
		}
	}
	w.send(other, toolCall("9", `{}`), "idempotency-key", "k").wantSent()
	for _, body := range bodies {
		x := w.open(g)
		x.body = []byte(body)
		x.sent = x.stream.RequestHeaders(false) == Continue
		x.gone = true
		if x.stream.Finished() {
			t.Errorf("%.60s: not looked at", body)
		}
		if x.stream.RequestBody(len(body), true) == Pause || !x.stream.Finished() || x.stream.watched != nil {
			t.Errorf("%.60s: held, or the stream is not over", body)
		}
		x.wantSent()
	}
}
