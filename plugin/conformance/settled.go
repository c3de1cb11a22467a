package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// What an answer makes of its key: where the call was cancelled, where the server says
// that it did not run, where the message is no plain JSON, and where it is too long.
var settled = []Case{
	{61, "cancelled,-then-answered", true, cancelledThenAnswered},
	{62, "errors-of-calls-that-did-not-run", true, errorsNotRun},
	{63, "a-message-in-odd-clothes", true, oddClothes},
	{64, "too-long-in-a-stream", true, tooLongInAStream},
	{65, "an-error,-then-the-answer", true, answersFreed},
	{66, "cancelled-behind-a-defect", true, cancelledBehindADefect},
}

// stops are what servers answer to a call that was cancelled, and what a repeat gets:
// refused, a replay, or another run.
var stops = map[string]struct {
	give   func(w http.ResponseWriter, s seen)
	repeat string
}{
	"go-sdk":     {func(w http.ResponseWriter, s seen) { writeJSON(w, answerTo(s, contextCanceled)) }, unknownOutcome},
	"go-sdk-sse": {func(w http.ResponseWriter, s seen) { event(w, answerTo(s, contextCanceled)) }, unknownOutcome},
	"error": {func(w http.ResponseWriter, s seen) {
		writeJSON(w, answerTo(s, `"error":{"code":-32603,"message":"stopped"}`))
	}, unknownOutcome},
	"error-sse": {func(w http.ResponseWriter, s seen) {
		event(w, answerTo(s, `"error":{"code":-32001,"message":"timeout"}`))
	}, unknownOutcome},
	"not-run": {func(w http.ResponseWriter, s seen) {
		writeJSON(w, answerTo(s, `"error":{"code":-32601,"message":"x"}`))
	}, unknownOutcome},
	"status":   {status(400, "application/json", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"x"}}`), unknownOutcome},
	"accepted": {status(202, "", ""), unknownOutcome},
	"done":     {asJSON, "replay"},
	"done-sse": {asEvents, "replay"},
}

const contextCanceled = `"result":{"isError":true,"content":[{"type":"text","text":"context canceled"}]}`

func answerTo(s seen, members string) string {
	return `{"jsonrpc":"2.0","id":` + s.ID + `,` + members + `}`
}

// cancelledThenAnswered cancels each call on another connection, so that another worker
// may see it, and counts how often the tool runs.
func cancelledThenAnswered(t *testing.T, f Front) {
	for name, members := range map[string]string{
		"keys anywhere":        "",
		"keys in headers only": `"keys":["header:Idempotency-Key"],`,
	} {
		var mu sync.Mutex
		told := map[string]chan struct{}{}
		stopped := func(id string) chan struct{} {
			mu.Lock()
			defer mu.Unlock()
			if told[id] == nil {
				told[id] = make(chan struct{})
			}
			return told[id]
		}
		config := strings.Replace(plain, `"server":"s"`, `"server":"s",`+members+`"tools":[{"match":"*","on_tool_error":"release"}]`, 1)
		u := newUpstream(t, func(w http.ResponseWriter, s seen) {
			if s.Rpc == "notifications/cancelled" {
				_, id, _ := strings.Cut(s.Body, `"requestId":`)
				close(stopped(id[:strings.IndexByte(id, ',')]))
				w.WriteHeader(202)
				return
			}
			if !strings.HasPrefix(s.ID, `"again`) && !strings.HasPrefix(s.ID, `"free`) {
				select {
				case <-stopped(s.ID):
				case <-s.Gone:
					return
				}
			}
			stops[s.Tool].give(w, s)
		})
		p := f.Start(t, Setup{Config: config, Upstream: u.URL})
		c := newClient(t, p)
		session := []string{"X-User", "ada", "Mcp-Session-Id", "s"}
		for tool, stop := range stops {
			// Some ids are strings and some numbers.
			for i, id := range []string{fmt.Sprint(len(told) + 1), `"` + tool + `"`} {
				key := fmt.Sprint(tool, i)
				before := u.Runs()
				call := c.begin(toolCall(id, tool, `{}`), append([]string{"Idempotency-Key", key}, session...)...)
				u.await(t, before+1)
				// What is another's touches nothing, and reaches the server all the same.
				other := newClient(t, p)
				notify := func(id string, h ...string) {
					r := other.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`,"reason":"x"}}`, h...)
					if r.Err != nil || r.Status != 202 {
						t.Fatalf("%s, %s: the cancellation got %d %v %s", name, tool, r.Status, r.Err, r.Body)
					}
				}
				notify(id, session...)
				if first := call.wait(t); first.Err != nil || first.isRefusal() != "" {
					t.Fatalf("%s, %s: the first caller got %d %v %s", name, tool, first.Status, first.Err, first.Body)
				}
				for n := range 3 {
					again := newClient(t, p).call(fmt.Sprint(`"again`, n, `"`), tool, `{}`, key, session...)
					if stop.repeat == "replay" {
						wantReplay(t, again)
					} else if again.Status != 409 || again.isRefusal() != stop.repeat {
						t.Errorf("%s, %s: expected %s, found %d %s", name, tool, stop.repeat, again.Status, again.Body)
					}
				}
				if runs := u.Runs() - before; runs != 1 {
					t.Errorf("%s, %s: ran %d times, expected 1", name, tool, runs)
				}
			}
		}
		// A cancellation by another caller, for another session or for another id is none.
		for i, h := range [][]string{{"X-User", "eve", "Mcp-Session-Id", "s"}, {"X-User", "ada", "Mcp-Session-Id", "t"}, {"X-User", "ada"}, session} {
			id, key := fmt.Sprint(9000+i), fmt.Sprint("spared", i)
			before := u.Runs()
			call := c.begin(toolCall(id, "go-sdk", `{}`), append([]string{"Idempotency-Key", key}, session...)...)
			u.await(t, before+1)
			foreign := id
			if i == 3 {
				foreign = `"` + id + `"`
			}
			r := newClient(t, p).post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+foreign+`,"reason":"x"}}`, h...)
			if r.Status != 202 {
				t.Fatalf("the notification got %d %s", r.Status, r.Body)
			}
			if i == 3 {
				close(stopped(id))
			}
			if first := call.wait(t); !strings.Contains(first.Body, "context canceled") {
				t.Fatalf("%s: the first caller got %d %v %s", name, first.Status, first.Err, first.Body)
			}
			if again := c.call(`"free"`, "go-sdk", `{}`, key, session...); again.isRefusal() != "" || u.Runs() != before+2 {
				t.Errorf("%s: another's cancellation (%v) touched the call: %d %s, %d runs", name, h, again.Status, again.Body, u.Runs()-before)
			}
		}
	}
}

// errorsNotRun: by these codes every server says that it has not run the tool, and by
// further ones those that the configuration names.
func errorsNotRun(t *testing.T, f Front) {
	config := strings.Replace(plain, `"server":"s"`, `"server":"s","released_errors":[-32602],"tools":[{"match":"strict*","released_errors":[-32000]}]`, 1)
	kinds := map[string]struct {
		members string // of the answer, with the id
		runs    bool
	}{
		"consent":       {`"id":$ID,"error":{"code":-32042,"message":"x","data":{"elicitations":[]}}`, true},
		"parse":         {`"id":null,"error":{"code":-32700,"message":"x"}`, true},
		"invalid":       {`"id":$ID,"error":{"code":-32600,"message":"x"}`, true},
		"no-method":     {`"error":{"message":"x","code":-32601},"id":$ID`, true},
		"params":        {`"id":$ID,"error":{"code":-32602,"message":"x"}`, true},
		"strict":        {`"id":$ID,"error":{"code":-32000,"message":"x"}`, true},
		"server":        {`"id":$ID,"error":{"code":-32000,"message":"x"}`, false},
		"internal":      {`"id":$ID,"error":{"code":-32603,"message":"x"}`, false},
		"not-an-answer": {`"id":$ID,"result":{"error":{"code":-32042},"code":-32042}`, false},
	}
	c, u, _ := serveWith(t, f, config, func(w http.ResponseWriter, s seen) {
		tool, sse := strings.CutSuffix(s.Tool, "-sse")
		body := `{"jsonrpc":"2.0",` + strings.ReplaceAll(kinds[tool].members, "$ID", s.ID) + `}`
		if sse {
			event(w, body)
			return
		}
		writeJSON(w, body)
	})
	for kind, k := range kinds {
		for _, tool := range []string{kind, kind + "-sse"} {
			before := u.Runs()
			first := c.call("1", tool, `{}`, tool)
			if first.Status != 200 || first.Err != nil || first.isRefusal() != "" {
				t.Fatalf("%s: the first caller got %d %v %s", tool, first.Status, first.Err, first.Body)
			}
			again := c.call("2", tool, `{}`, tool)
			replayed := again.Header.Get("Idempotency-Replayed") == "true"
			if runs := u.Runs() - before; runs == 2 != k.runs || replayed == k.runs || again.Status != 200 {
				t.Errorf("%s: ran %d times, replayed %v, expected another run: %v: %d %s", tool, runs, replayed, k.runs, again.Status, again.Body)
			}
		}
	}
}

// oddClothes: what a replay needs to know stands in the message's outermost members; the
// rest is repeated as it came, and white space and comments count for nothing.
func oddClothes(t *testing.T, f Front) {
	const capBytes = 2048
	config := strings.Replace(plain, `"server":"s"`, fmt.Sprintf(`"server":"s","limits":{"reply_bytes":%d}`, capBytes), 1)
	spaces := strings.Repeat(" \n", capBytes)
	kinds := map[string]string{
		"surrogate":    `{"jsonrpc":"2.0","id":$ID,"result":{"text":"cut \ud83d"}}`,
		"not-a-number": `{"jsonrpc":"2.0","id":$ID,"result":{"structuredContent":{"rate":NaN,"most":-Infinity}}}`,
		"twice":        `{"jsonrpc":"2.0","id":$ID,"result":{"a":{"b":1,"b":2}}}`,
		"batch-of-one": `[{"jsonrpc":"2.0","id":$ID,"result":{}}]`,
		"in-front":     "\r\n \t" + `{"jsonrpc":"2.0","id":$ID,"result":{}}`,
		"keep-alive":   spaces + `{"jsonrpc":"2.0","id":$ID,"result":{}}` + spaces,
		"printed":      `{"jsonrpc":"2.0",` + spaces + `"id":$ID,"result":{"a":[1, 2]}}`,
	}
	broken := map[string]string{
		"two-results": `{"jsonrpc":"2.0","id":$ID,"result":{},"result":{"isError":true}}`,
		"two-cases":   `{"jsonrpc":"2.0","id":$ID,"ID":8,"result":{}}`,
		"two-in-one":  `[{"jsonrpc":"2.0","id":$ID,"result":{}},{"jsonrpc":"2.0","id":8,"result":{}}]`,
	}
	untold := map[string]string{ // whether the call was answered
		"two-ids": `{"jsonrpc":"2.0","id":$ID,"id":$ID,"result":{}}`,
		"cut":     `{"jsonrpc":"2.0","id":$ID,"result":{"a":[}}`,
	}
	c, u, _ := serveWith(t, f, config, func(w http.ResponseWriter, s seen) {
		tool, sse := strings.CutSuffix(s.Tool, "-sse")
		body := strings.ReplaceAll(kinds[tool]+broken[tool]+untold[tool], "$ID", s.ID)
		if !sse {
			writeJSON(w, body)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		comment := ": " + strings.Repeat("ping ", capBytes) + "\n"
		body = "data: " + strings.NewReplacer("\r\n", "\ndata:", "\n", "\ndata:").Replace(body)
		_, _ = w.Write([]byte(comment + body + "\n" + comment + "\n"))
	})
	runs := 0
	for _, sse := range []string{"", "-sse"} {
		for tool, body := range kinds {
			runs++
			first := c.call("1", tool+sse, `{}`, tool+sse)
			wantFirst(t, first)
			again := c.call(`"two"`, tool+sse, `{}`, tool+sse)
			wantReplay(t, again)
			want := strings.TrimSpace(strings.ReplaceAll(body, "$ID", `"two"`))
			if got := again.Body; got != want && strings.Join(strings.Fields(got), "") != strings.Join(strings.Fields(want), "") {
				t.Errorf("%s%s: expected %q, found %q", tool, sse, want, got)
			}
		}
		for tool := range broken {
			runs++
			wantFirst(t, c.call("1", tool+sse, `{}`, tool+sse))
			wantRefusal(t, c.call("2", tool+sse, `{}`, tool+sse), 409, notReplayable)
		}
		for tool := range untold {
			runs++
			wantFirst(t, c.call("1", tool+sse, `{}`, tool+sse))
			wantRefusal(t, c.call("2", tool+sse, `{}`, tool+sse), 409, unknownOutcome)
		}
	}
	wantRuns(t, u, runs)
}

// tooLongInAStream: that an answer will never be there again is known long before a slow
// stream ends.
func tooLongInAStream(t *testing.T, f Front) {
	const capBytes = 2048
	config := strings.Replace(plain, `"server":"s"`, fmt.Sprintf(`"server":"s","limits":{"reply_bytes":%d}`, capBytes), 1)
	g := newGate()
	defer g.open()
	begins := map[string]string{
		"id-first":     `{"jsonrpc":"2.0","id":$ID,"result":{"pad":"`,
		"result-first": `{"result":{"pad":"`,
		"progress":     `{"jsonrpc":"2.0","method":"notifications/message","params":{"pad":"`,
	}
	ends := map[string]string{"id-first": `"}}`, "result-first": `"},"jsonrpc":"2.0","id":$ID}`, "progress": `"}}`}
	c, u, _ := serveWith(t, f, config, func(w http.ResponseWriter, s seen) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: " + strings.ReplaceAll(begins[s.Tool], "$ID", s.ID) + strings.Repeat("x", 2*capBytes)))
		w.(http.Flusher).Flush()
		if g.wait(s) {
			_, _ = w.Write([]byte(strings.ReplaceAll(ends[s.Tool], "$ID", s.ID) + "\n\n"))
			if s.Tool == "progress" {
				event(w, result(s))
			}
		}
	})
	calls := map[string]*underway{}
	for tool := range begins {
		calls[tool] = c.begin(toolCall("1", tool, `{}`), "Idempotency-Key", tool)
		again := func() string { return c.call("2", tool, `{}`, tool).isRefusal() }
		eventually(t, "the first call to arrive", func() bool { return u.Runs() == len(calls) })
		if tool == "progress" {
			if got := again(); got != "idempotency_in_flight" {
				t.Errorf("%s: a repeat in the middle was told %q", tool, got)
			}
			continue
		}
		eventually(t, "a repeat of "+tool+" to be told that the answer is not kept", func() bool { return again() == notReplayable })
	}
	g.open()
	for tool, call := range calls {
		wantFirst(t, call.wait(t))
		again := c.call("3", tool, `{}`, tool)
		if tool == "progress" {
			wantReplay(t, again)
		} else {
			wantRefusal(t, again, 409, notReplayable)
		}
	}
	wantRuns(t, u, len(begins))
}
