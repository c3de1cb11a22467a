package conformance

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
)

// The idempotency layer, and clients as they are.
var layer = []Case{
	{11, "two-hundred-at-once", false, stampede},
	{15, "replays-say-so-first-answers-do-not", true, marked},
	{16, "the-first-answer's-own-headers-stay-away", true, ownHeaders},
	{20, "keys-in-headers", true, headerKeys},
	{21, "what-differs-in-every-attempt", false, attempts},
	{50, "a-key-on-every-request", true, keyOnEverything},
	{51, "repeat-right-after-the-reply", true, rightAfter},
}

// stampedeRounds bounds case 11 in an ordinary run; a long one goes through all
// thousand. The e2e module races a real Envoy (TestRace).
const stampedeRounds = 100

func stampede(t *testing.T, f Front) {
	rounds := stampedeRounds
	if os.Getenv(longRun) != "" {
		rounds = 1000
	}
	u := newUpstream(t, asJSON)
	p := f.Start(t, Setup{Config: plain, Upstream: u.URL, Workers: 8})
	c := newClient(t, p)
	for round := range rounds {
		var wg sync.WaitGroup
		var mu sync.Mutex
		odd := ""
		for i := range 200 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				r := c.call(fmt.Sprint(i), "charge", `{"round":1}`, fmt.Sprint("round-", round))
				if r.Status != 200 && r.isRefusal() != "idempotency_in_flight" {
					mu.Lock()
					odd = fmt.Sprintf("%d %v %s", r.Status, r.Err, r.Body)
					mu.Unlock()
				}
			}()
		}
		wg.Wait()
		if odd != "" {
			t.Fatalf("round %d: neither an answer nor in flight: %s", round, odd)
		}
		wantRuns(t, u, round+1)
	}
}

func marked(t *testing.T, f Front) {
	answers := map[string]string{
		"result":    `"result":{"content":[]}`,
		"toolerror": `"result":{"isError":true,"content":[{"type":"text","text":"no funds"}]}`,
		"rpcerror":  `"error":{"code":-32602,"message":"unknown tool"}`,
	}
	c, u, _ := serve(t, f, func(w http.ResponseWriter, s seen) {
		if s.Tool == "own" {
			w.Header().Set("Idempotency-Replayed", "by-the-server")
			asJSON(w, s)
			return
		}
		writeJSON(w, `{"jsonrpc":"2.0","id":`+s.ID+`,`+answers[s.Tool]+`}`)
	})
	for tool, want := range answers {
		first := c.call("1", tool, `{}`, tool)
		if first.Status != 200 || first.Header.Get("Idempotency-Replayed") != "" || !strings.Contains(first.Body, want) {
			t.Fatalf("%s: not the server's first answer: %d %v %s", tool, first.Status, first.Header, first.Body)
		}
		again := c.call("2", tool, `{}`, tool)
		if again.Status != 200 || again.Header.Get("Idempotency-Replayed") != "true" || !strings.Contains(again.Body, want) || idOf(t, again) != "2" {
			t.Fatalf("%s: not a replay: %d %v %s", tool, again.Status, again.Header, again.Body)
		}
	}
	if r := c.call("1", "own", `{}`, "own"); r.Header.Get("Idempotency-Replayed") != "by-the-server" {
		t.Errorf("the server's own header was touched: %v", r.Header)
	}
	wantReplay(t, c.call("2", "own", `{}`, "own"))
	wantRuns(t, u, 4)
}

func ownHeaders(t *testing.T, f Front) {
	own := map[string]string{
		"Set-Cookie":       "session=secret-of-the-first",
		"Traceparent":      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"Www-Authenticate": `Bearer realm="first"`,
		"X-Request-Cost":   "12",
		"Date":             "Tue, 15 Nov 1994 08:12:31 GMT",
	}
	c, u, _ := serve(t, f, func(w http.ResponseWriter, s seen) {
		for k, v := range own {
			w.Header().Set(k, v)
		}
		asJSON(w, s)
	})
	first := c.call("1", "charge", `{}`, "k")
	wantFirst(t, first)
	if first.Header.Get("Set-Cookie") != own["Set-Cookie"] {
		t.Fatalf("the first answer lost the server's headers: %v", first.Header)
	}
	again := c.call("2", "charge", `{}`, "k")
	wantReplay(t, again)
	for k, v := range own {
		if got := again.Header.Get(k); got == v {
			t.Errorf("a replay carries the first answer's %s: %s", k, got)
		}
	}
	wantRuns(t, u, 1)
}

func headerKeys(t *testing.T, f Front) {
	c, u, _ := serve(t, f, asJSON)
	wantFirst(t, c.call("1", "charge", `{}`, "abc"))
	wantReplay(t, c.call("2", "charge", `{}`, `"abc"`))
	wantReplay(t, c.call("3", "charge", `{}`, "", "X-Idempotency-Key", "abc"))
	wantReplay(t, c.post(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"charge","idempotencyKey":"abc"}}`))
	wantReplay(t, c.call("5", "charge", `{"idempotency_key":"abc"}`, ""))
	wantReplay(t, c.post(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"charge","_meta":{"callonce.dev/idempotency-key":"abc"}}}`))
	wantFirst(t, c.call("7", "charge", `{}`, strings.Repeat("x", 255)))
	wantRuns(t, u, 2)
	for name, h := range map[string]headers{
		"two lines":             {"Idempotency-Key", "abc", "Idempotency-Key", "abc"},
		"an empty value":        {"Idempotency-Key", ""},
		"an empty string":       {"Idempotency-Key", `""`},
		"256 characters":        {"Idempotency-Key", strings.Repeat("x", 256)},
		"a tab":                 {"Idempotency-Key", "a\tb"},
		"not ASCII":             {"Idempotency-Key", "é"},
		"a space":               {"Idempotency-Key", "a b"},
		"two that differ":       {"Idempotency-Key", "abc", "X-Idempotency-Key", "abd"},
		"an open quoted string": {"Idempotency-Key", `"abc`},
	} {
		r := c.post(toolCall("8", "charge", `{}`), h...)
		if f := wantRefusal(t, r, 400, "idempotency_key_invalid"); string(f.ID) != "8" {
			t.Errorf("%s: the refusal has the id %s", name, f.ID)
		}
	}
	wantRefusal(t, c.call("9", "charge", `{"idempotency_key":"other"}`, "abc"), 400, "idempotency_key_invalid")
	wantRefusal(t, c.call("9", "charge", `{"idempotency_key":7}`, ""), 400, "idempotency_key_invalid")
	wantRuns(t, u, 2)
}

func attempts(t *testing.T, f Front) {
	c, u, _ := serve(t, f, asJSON)
	attempt := func(id, meta, args string) reply {
		return c.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"_meta":`+meta+`,"name":"charge","arguments":`+args+`}}`, "Idempotency-Key", "k")
	}
	wantFirst(t, attempt("1", `{"progressToken":1,"traceparent":"00-a-b-01"}`, `{"progressToken":1,"id":1}`))
	wantReplay(t, attempt("2", `{"progressToken":2,"traceparent":"00-c-d-01"}`, `{"progressToken":1,"id":1}`))
	wantRefusal(t, attempt("3", `{"progressToken":1}`, `{"progressToken":2,"id":1}`), 409, "idempotency_key_conflict")
	wantRefusal(t, attempt("1", `{"progressToken":1}`, `{"progressToken":1,"id":2}`), 409, "idempotency_key_conflict")
	wantRuns(t, u, 1)
}

func keyOnEverything(t *testing.T, f Front) {
	c, u, p := serve(t, f, func(w http.ResponseWriter, s seen) {
		switch {
		case s.Method == "GET":
			event(w, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		case s.Rpc == "initialize":
			writeJSON(w, `{"jsonrpc":"2.0","id":`+s.ID+`,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)
		case s.Rpc == "tools/call":
			asJSON(w, s)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	key := headers{"Idempotency-Key", "always-this"}
	if r := c.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, key...); r.Status != 200 || !strings.Contains(r.Body, "serverInfo") {
		t.Fatalf("initialize: %d %s", r.Status, r.Body)
	}
	if r := c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, key...); r.Status != 202 {
		t.Fatalf("notifications/initialized: %d %s", r.Status, r.Body)
	}
	if r := c.do("GET", "", append(key, "Accept", "text/event-stream")); r.Status != 200 || !strings.Contains(r.Body, "list_changed") {
		t.Fatalf("the GET stream: %d %s", r.Status, r.Body)
	}
	if r := c.do("DELETE", "", key); r.Status != 202 {
		t.Fatalf("DELETE: %d %s", r.Status, r.Body)
	}
	if r := c.post(`grant_type=client_credentials`, append(key, "Content-Type", "application/x-www-form-urlencoded")...); r.Status != 202 {
		t.Fatalf("a form: %d %s", r.Status, r.Body)
	}
	wantFirst(t, c.call("2", "charge", `{}`, "always-this"))
	wantReplay(t, c.call("3", "charge", `{}`, "always-this"))
	wantRuns(t, u, 1)
	wantCount(t, p, "callonce_stray_keys_total", map[string]string{"server": "s"}, 5)
}

func rightAfter(t *testing.T, f Front) {
	for name, answer := range map[string]func(http.ResponseWriter, seen){"json": asJSON, "sse": asEvents} {
		t.Run(name, func(t *testing.T) {
			c, u, _ := serve(t, f, answer)
			const rounds = 2500 // each with a first call and a repeat, twice: 10,000 requests
			for i := range rounds {
				key := fmt.Sprint("k", i)
				wantFirst(t, c.call("1", "charge", `{}`, key))
				wantReplay(t, c.call("2", "charge", `{}`, key))
			}
			wantRuns(t, u, rounds)
		})
	}
}
