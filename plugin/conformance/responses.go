package conformance

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// What comes back, and what a repeat is told.
var responses = []Case{
	{12, "answers-of-every-kind", true, everyAnswer},
	{17, "replies-at-the-cap", true, atTheCap},
	{19, "gzip-that-nobody-asked-for", true, unaskedGzip},
	{27, "depth", true, depth},
	{36, "a-replay-under-a-longer-id", true, longerID},
	{43, "a-task's-handle", false, taskHandle},
	{47, "a-server's-request-under-our-id", true, serversRequest},
	{53, "shed-under-byte-pressure", false, shedReply},
}

// answered is one kind of answer, and what it makes of its key.
type answered struct {
	give   func(w http.ResponseWriter, s seen)
	status int    // as the first caller sees it; 0 = the proxy's own 5xx, or a broken connection
	repeat string // the refusal of a repeat, "replay", or "" where it runs again
}

func status(code int, contentType, body string) func(http.ResponseWriter, seen) {
	return func(w http.ResponseWriter, s seen) {
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "$ID", s.ID))
	}
}

const (
	unknownOutcome = "idempotency_outcome_unknown"
	notReplayable  = "idempotency_response_not_replayable"
)

var everyKind = map[string]answered{
	"accepted":     {status(202, "", ""), 202, unknownOutcome},
	"created":      {status(201, "application/json", `{"jsonrpc":"2.0","id":$ID,"result":{}}`), 201, "replay"},
	"no-content":   {status(204, "", ""), 204, unknownOutcome},
	"moved":        {status(301, "text/plain", "elsewhere"), 301, unknownOutcome},
	"found":        {status(302, "text/plain", "elsewhere"), 302, unknownOutcome},
	"see-other":    {status(303, "application/json", `{"jsonrpc":"2.0","id":$ID,"result":{}}`), 303, unknownOutcome},
	"moved-307":    {status(307, "text/plain", "elsewhere"), 307, ""},
	"moved-308":    {status(308, "", ""), 308, ""},
	"html-500":     {status(500, "text/html", "<h1>oops</h1>"), 500, unknownOutcome},
	"html-200":     {status(200, "text/html", "<h1>hello</h1>"), 200, unknownOutcome},
	"timeout-408":  {status(408, "", ""), 408, unknownOutcome},
	"closed-499":   {status(499, "", ""), 499, unknownOutcome},
	"refused-422":  {status(422, "application/json", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"no"}}`), 422, ""},
	"reset":        {func(w http.ResponseWriter, s seen) { hangUp(w) }, 0, unknownOutcome},
	"broken-json":  {status(200, "application/json", `{"jsonrpc":"2.0","id":$ID,"result":`), 200, unknownOutcome},
	"other-id":     {status(200, "application/json", `{"jsonrpc":"2.0","id":"not-$ID","result":{}}`), 200, unknownOutcome},
	"no-message":   {status(200, "application/json", `[]`), 200, unknownOutcome},
	"duplicate":    {status(200, "application/json", `{"jsonrpc":"2.0","id":$ID,"id":$ID,"result":{}}`), 200, unknownOutcome},
	"two-results":  {status(200, "application/json", `{"jsonrpc":"2.0","id":$ID,"result":{},"result":{}}`), 200, notReplayable},
	"no-protocol":  {status(200, "application/json", `{"error":"unauthorized"}`), 200, unknownOutcome},
	"no-session":   {status(200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}`), 200, unknownOutcome},
	"python-error": {status(200, "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"x"}}`), 200, ""},
	"long-error":   {status(200, "application/json", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"`+strings.Repeat("x", 100_000)+`"}}`), 200, ""},
	"empty-stream": {status(200, "text/event-stream", ""), 200, unknownOutcome},
	"cut-body":     {cutAfter("application/json", `{"jsonrpc":"2.0","id":$ID,"result":{`), 0, unknownOutcome},
	"cut-stream":   {cutAfter("text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}\n"), 0, unknownOutcome},
	"cut-after-it": {cutAfter("text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}\n\n"), 0, "replay"},
}

// cutAfter begins an answer and resets the connection in its middle.
func cutAfter(contentType, begin string) func(http.ResponseWriter, seen) {
	return func(w http.ResponseWriter, s seen) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, strings.ReplaceAll(begin, "$ID", s.ID))
		w.(http.Flusher).Flush()
		hangUp(w)
	}
}

func everyAnswer(t *testing.T, f Front) {
	c, u, p := serve(t, f, func(w http.ResponseWriter, s seen) { everyKind[s.Tool].give(w, s) })
	want := map[string]int{} // settlements
	for kind, a := range everyKind {
		before := u.Runs()
		first := c.call("1", kind, `{}`, kind)
		switch {
		case first.isRefusal() != "":
			t.Fatalf("%s: the first call was refused: %s", kind, first.Body)
		case a.status == 0 && first.Err == nil && first.Status < 500:
			t.Errorf("%s: expected a broken answer, found %d %s", kind, first.Status, first.Body)
		case a.status != 0 && first.Status != a.status:
			t.Errorf("%s: expected the server's %d, found %d %v", kind, a.status, first.Status, first.Err)
		}
		runs := 1
		for i := range 2 {
			again := c.call(fmt.Sprint(2+i), kind, `{}`, kind)
			switch a.repeat {
			case "replay":
				if again.Header.Get("Idempotency-Replayed") != "true" || again.Status != max(a.status, 200) {
					t.Errorf("%s: expected a replay, found %d %s", kind, again.Status, again.Body)
				}
			case "":
				runs++
				if again.Status != a.status || again.Header.Get("Idempotency-Replayed") != "" {
					t.Errorf("%s: expected another run, found %d %s", kind, again.Status, again.Body)
				}
			default:
				if again.Status != 409 || again.isRefusal() != a.repeat {
					t.Errorf("%s: expected %s, found %d %s", kind, a.repeat, again.Status, again.Body)
				}
			}
		}
		if n := u.Runs() - before; n != runs {
			t.Errorf("%s: ran %d times, expected %d", kind, n, runs)
		}
		want[map[string]string{"replay": "completed", "": "released", unknownOutcome: "outcome_unknown", notReplayable: "not_replayable"}[a.repeat]] += runs
	}
	for how, n := range want {
		wantCount(t, p, "callonce_settled_total", map[string]string{"how": how, "server": "s"}, int64(n))
	}
}

// padded is a result of exactly so many bytes as a message.
func padded(id string, size int) string {
	frame := `{"jsonrpc":"2.0","id":` + id + `,"result":{"pad":""}}`
	return strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1)
}

func atTheCap(t *testing.T, f Front) {
	const capBytes = 8192
	config := strings.Replace(plain, `"server":"s"`, fmt.Sprintf(`"server":"s","limits":{"reply_bytes":%d}`, capBytes), 1)
	ways := map[string]func(w http.ResponseWriter, body string){
		"length": func(w http.ResponseWriter, body string) {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			writeJSON(w, body)
		},
		"chunks": func(w http.ResponseWriter, body string) {
			writeJSON(w, body[:100])
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, body[100:])
		},
		"events": func(w http.ResponseWriter, body string) { event(w, body) },
	}
	over := func(s seen) int { return strings.Count(s.Args, "over") }
	c, u, _ := serveWith(t, f, config, func(w http.ResponseWriter, s seen) {
		ways[s.Tool](w, padded(s.ID, capBytes+over(s)))
	})
	runs := 0
	for tool := range ways {
		first := c.call("1", tool, `{}`, tool)
		wantFirst(t, first)
		again := c.call("2", tool, `{}`, tool)
		wantReplay(t, again)
		if want := strings.Replace(first.message(t), `"id":1`, `"id":2`, 1); again.message(t) != want {
			t.Errorf("%s at the cap: the replay is not the reply", tool)
		}
		first = c.call("1", tool, `{"size":"over"}`, tool+"-over")
		wantFirst(t, first)
		if got := first.message(t); got != padded("1", capBytes+1) {
			t.Errorf("%s, one byte over: %d bytes reached the first caller, expected %d whole", tool, len(got), capBytes+1)
		}
		for range 2 {
			wantRefusal(t, c.call("3", tool, `{"size":"over"}`, tool+"-over"), 409, notReplayable)
		}
		runs += 2
		wantRuns(t, u, runs)
	}
}

func unaskedGzip(t *testing.T, f Front) {
	c, u, _ := serve(t, f, func(w http.ResponseWriter, s seen) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", map[string]string{"json": "application/json", "sse": "text/event-stream"}[s.Tool])
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, result(s))
		_ = z.Close()
	})
	for i, tool := range []string{"json", "sse"} {
		first := c.call("1", tool, `{}`, tool, "Accept-Encoding", "gzip, br")
		if first.Status != 200 || first.Err != nil || first.Header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: expected the server's gzip, found %d %v %v", tool, first.Status, first.Err, first.Header)
		}
		z, err := gzip.NewReader(strings.NewReader(first.Body))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(z); err != nil || !strings.Contains(string(b), `"text":"run `) {
			t.Errorf("%s: the first caller did not get it whole: %q, %v", tool, b, err)
		}
		if got := u.Seen()[i].Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("%s: the server was asked for Accept-Encoding %q, so that the reply could not be kept", tool, got)
		}
		wantRefusal(t, c.call("2", tool, `{}`, tool), 409, notReplayable)
	}
	wantRuns(t, u, 2)
}

func depth(t *testing.T, f Front) {
	// Above the sizes of what is nested here, so that its depth alone is refused.
	config := strings.Replace(plain, `"server":"s"`, `"server":"s","max_request_bytes":1040000,"limits":{"reply_bytes":1048576}`, 1)
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	depths := []int{1000, 10_000, 500_000}
	c, u, _ := serveWith(t, f, config, func(w http.ResponseWriter, s seen) {
		var n int
		if _, err := fmt.Sscanf(s.Args, `{"reply":%d}`, &n); err != nil {
			asJSON(w, s)
			return
		}
		body := `{"jsonrpc":"2.0","id":` + s.ID + `,"result":{"content":` + nested(n) + `}}`
		if s.Tool == "sse" {
			event(w, body)
			return
		}
		writeJSON(w, body)
	})
	for _, n := range depths {
		r := c.call("1", "charge", `{"a":`+nested(n)+`}`, "deep")
		if f := wantRefusal(t, r, 400, "idempotency_unsupported_request"); f.Error.Data.MayHaveRun != "no" || !strings.Contains(f.Error.Message, "byte ") {
			t.Errorf("depth %d: not a clean refusal: %s", n, r.Body)
		}
	}
	wantRuns(t, u, 0)
	for _, tool := range []string{"json", "sse"} {
		for _, n := range depths {
			key, args := fmt.Sprint(tool, n), fmt.Sprintf(`{"reply":%d}`, n)
			first := c.call("1", tool, args, key)
			wantFirst(t, first)
			if !strings.Contains(first.Body, nested(n)) {
				t.Errorf("%s: a reply of depth %d did not pass whole", tool, n)
			}
			wantRefusal(t, c.call("2", tool, args, key), 409, notReplayable)
		}
	}
	// The workers live: what they knew before they still know.
	wantFirst(t, c.call("3", "charge", `{}`, "flat"))
	for range 4 {
		wantReplay(t, c.call("4", "charge", `{}`, "flat"))
	}
	wantRuns(t, u, 2*len(depths)+1)
}

func longerID(t *testing.T, f Front) {
	c, u, _ := serve(t, f, asJSON)
	const id = `"an id that is very much longer than the first one \" and has a quote in it"`
	h2 := c.overHTTP2()
	asked := func(c *client, body func(string) io.Reader, id, key string) reply {
		return c.patiently(func() reply {
			res, err := c.open(t.Context(), "POST", body(toolCall(id, "charge", `{}`)), headers{"Idempotency-Key", key})
			if err != nil {
				t.Fatal(err)
			}
			return readAll(res)
		})
	}
	whole := func(s string) io.Reader { return strings.NewReader(s) }
	for name, ask := range map[string]func(id, key string) reply{
		"HTTP/1.1":      func(id, key string) reply { return asked(c, whole, id, key) },
		"chunked":       func(id, key string) reply { return asked(c, chunked, id, key) },
		"HTTP/2":        func(id, key string) reply { return asked(h2, whole, id, key) },
		"HTTP/2-chunks": func(id, key string) reply { return asked(h2, chunked, id, key) },
	} {
		first := ask("7", name)
		wantFirst(t, first)
		again := ask(id, name)
		wantReplay(t, again)
		if want := strings.Replace(first.Body, `"id":7`, `"id":`+id, 1); again.Body != want {
			t.Errorf("%s: expected %s, found %s", name, want, again.Body)
		}
		if got := again.Header.Get("Content-Length"); got != fmt.Sprint(len(again.Body)) {
			t.Errorf("%s: Content-Length %q for %d bytes", name, got, len(again.Body))
		}
	}
	wantRuns(t, u, 4)
}

func taskHandle(t *testing.T, f Front) {
	c, u, _ := serve(t, f, func(w http.ResponseWriter, s seen) {
		writeJSON(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"task","taskId":"task-of-run-%d"}}`, s.ID, s.Run))
	})
	call := func(id string, knows bool) reply {
		meta := `{"progressToken":` + id + `}`
		if knows {
			meta = `{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		}
		return c.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"charge","_meta":`+meta+`}}`, "Idempotency-Key", "k")
	}
	wantFirst(t, call("1", true))
	for i := range 2 {
		r := call(fmt.Sprint(2+i), true)
		wantReplay(t, r)
		if !strings.Contains(r.Body, "task-of-run-1") {
			t.Errorf("another task: %s", r.Body)
		}
		if r = call(fmt.Sprint(4+i), false); strings.Contains(r.Body, "task-of-run") {
			t.Errorf("a client that does not know tasks was handed one: %s", r.Body)
		}
		wantRefusal(t, r, 409, notReplayable)
	}
	wantRuns(t, u, 1)
}

func serversRequest(t *testing.T, f Front) {
	c, u, _ := serve(t, f, func(w http.ResponseWriter, s seen) {
		event(w, `{"jsonrpc":"2.0","id":`+s.ID+`,"method":"sampling/createMessage","params":{"result":"not this"}}`)
		if s.Tool == "answers" {
			event(w, result(s))
		}
	})
	wantFirst(t, c.call("1", "answers", `{}`, "a"))
	again := c.call("2", "answers", `{}`, "a")
	wantReplay(t, again)
	if strings.Contains(again.Body, "sampling") || !strings.Contains(again.Body, "run 1 of answers") {
		t.Errorf("not the response: %s", again.Body)
	}
	wantFirst(t, c.call("1", "asks", `{}`, "b"))
	wantRefusal(t, c.call("2", "asks", `{}`, "b"), 409, unknownOutcome)
	wantRuns(t, u, 2)
}

func shedReply(t *testing.T, f Front) {
	config := strings.Replace(plain, `"server":"s"`, `"server":"s","limits":{"reply_bytes":4096,"stored_bytes":16384}`, 1)
	c, u, _ := serveWith(t, f, config, func(w http.ResponseWriter, s seen) { writeJSON(w, padded(s.ID, 4000)) })
	const calls = 12 // of which the budget holds four at most
	for i := range calls {
		wantFirst(t, c.call("1", "charge", `{}`, fmt.Sprint("k", i)))
	}
	kept := 0
	for i := range calls {
		r := c.call("2", "charge", `{}`, fmt.Sprint("k", i))
		if r.Header.Get("Idempotency-Replayed") == "true" {
			wantReplay(t, r)
			kept++
			continue
		}
		if kept > 0 {
			t.Errorf("call %d was shed before an older one", i)
		}
		wantRefusal(t, r, 409, notReplayable)
	}
	if kept < 1 || kept > 4 {
		t.Errorf("%d replies of 4,000 bytes are kept in 16,384 bytes", kept)
	}
	wantRefusal(t, c.call("3", "charge", `{"other":1}`, "k0"), 409, "idempotency_key_conflict")
	wantRuns(t, u, calls)
}
