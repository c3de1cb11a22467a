package guard

import (
	"runtime"
	"strings"
	"testing"
)

// A worker's memory never shrinks, and what it keeps of a large call lasts: whatever is
// large about it, next to nothing is kept once it is over.
func TestLargeCallsLeaveNoMemory(t *testing.T) {
	const size, most = 8 << 20, 400 << 10
	x := strings.Repeat("x", size)
	numbers := strings.Repeat("0,", size/8) + "0"
	result := func(members string) string { return `{"jsonrpc":"2.0","id":1,` + members + `}` }
	type large struct {
		body            string
		headers         []string
		content, answer string
		again           bool
	}
	call := func(args string, h ...string) large {
		return large{toolCall("1", args), append(h, "idempotency-key", "k"), "application/json", okResult, true}
	}
	answered := func(content, answer string) large {
		return large{toolCall("1", `{}`), []string{"idempotency-key", "k"}, content, answer, true}
	}
	list := func(content, answer string) large {
		return large{body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, content: content, answer: answer}
	}
	for name, c := range map[string]large{
		"arguments":           call(`{"a":"` + x + `"}`),
		"without a key":       {toolCall("1", `{"a":"`+x+`"}`), nil, "application/json", okResult, true},
		"many values":         call(`{"a":[` + numbers + `]}`),
		"escapes":             call(`{"a":"` + strings.Repeat(`\u00e9`, size/8) + `"}`),
		"a key to be cut":     call(`{"idempotency_key":"k","a":"` + x + `"}`),
		"an id":               {toolCall(`"`+x+`"`, `{}`), []string{"idempotency-key", "k"}, "application/json", okResult, true},
		"a path":              call(`{}`, ":path", "/"+x),
		"credentials":         call(`{}`, "authorization", x),
		"a state":             {strings.Replace(toolCall("1", `{}`), `"params":{`, `"params":{"requestState":"`+x+`",`, 1), []string{"idempotency-key", "k"}, "application/json", okResult, true},
		"no call, cut short":  {body: `{"jsonrpc":"2.0","id":1,"method":"prompts/list","a":"` + strings.Repeat(x, 3) + `"}`, content: "application/json", answer: okResult},
		"an answer":           answered("application/json", result(`"result":{"a":"`+x+`"}`)),
		"an answer of values": answered("application/json", result(`"result":{"a":[`+numbers+`]}`)),
		"an event":            answered("text/event-stream", "data: "+result(`"result":{"a":"`+x+`"}`)+"\n\n"),
		"an event before":     answered("text/event-stream", "data: "+result(`"method":"`+x+`"`)+"\n\ndata: "+okResult+"\n\n"),
		"an answer cut short": answered("application/json", result(`"result":{"a":"` + x + `"}`)[:size]),
		"a broken answer":     answered("application/json", result(`"result":{"a":"`+x+`"},`)),
		"an answer's id":      answered("application/json", strings.Replace(okResult, `"id":1`, `"id":"`+x+`"`, 1)),
		"a list":              list("application/json", result(`"result":{"tools":[{"name":"charge","inputSchema":{"a":[`+numbers[:900_001]+`]}}]}`)),
		"a list too long":     list("application/json", result(`"result":{"tools":[{"name":"charge","inputSchema":{"a":"`+x+`"}}]}`)),
		"a list as an event":  list("text/event-stream", "data: "+result(`"result":{"tools":[{"name":"charge","inputSchema":{"a":"`+x[:900_000]+`"}}]}`)+"\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			g := w.worker(`{"policies":{"p":{"server":"srv","anonymous":true,"max_request_bytes":16777216,"advertise":true,"strip":true,"log_unkeyed":true,"marker":"meta",` +
				`"limits":{"reply_bytes":16777216,"stored_bytes":67108864}}},"default":"p"}`)
			var kept []*Stream // as a proxy keeps them for further use
			play := func(c large) {
				for range 2 {
					x := w.send(g, c.body, c.headers...)
					if x.sent {
						x.begin(200, c.content)
						x.relayed(c.answer, 1<<20)
						x.stream.ResponseBody(0, true)
					}
					x.stream.Done()
					kept = append(kept, x.stream.Stream)
					x.stream.host = nil
					if !c.again {
						break
					}
				}
			}
			small := call(`{"a":1}`)
			small.headers = []string{"idempotency-key", "small"}
			play(small)
			before := used(w)
			play(c)
			if grown := int64(used(w)) - int64(before); grown > most {
				t.Errorf("%d KiB are kept", grown>>10)
			}
			play(small)
			runtime.KeepAlive(kept)
			runtime.KeepAlive(g)
		})
	}
}

// relayed gives a body in chunks of n bytes, which may pause.
func (x *exchange) relayed(body string, n int) {
	r := &relay{exchange: x}
	for len(body) > 0 {
		part := body[:min(n, len(body))]
		body = body[len(part):]
		r.data(part, false)
	}
	x.chunk, x.body = nil, nil
}

// used is the memory that is in use, but for the host's.
func used(w *world) uint64 {
	w.memory.lent = lent{}
	stored := uint64(0)
	for _, c := range w.memory.values {
		stored += uint64(cap(c.value))
	}
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc - stored
}
