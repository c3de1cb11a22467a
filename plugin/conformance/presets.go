package conformance

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Presets plays, under each preset, the scenarios of the design that it follows: docs/designs.md
// has the rows. One proxy serves all four, each on a route of its own, and what ran is counted at
// the server.
func Presets(t *testing.T, f Front) {
	const config = `{"namespace":"cases","policies":{
		"gateway":{"preset":"gateway","server":"gateway","principal":["header:x-user"],"released_statuses":[503],"tools":[{"match":"get_*","guard":"off"}]},
		"sep3182":{"preset":"sep3182","server":"sep3182","principal":["header:x-user"]},
		"derived":{"preset":"derived","server":"derived","principal":["header:x-user"],"tools":[
			{"match":"get_*","guard":"off"},
			{"match":"mail","exclude":["/sent_at"],"round":{"/at":60},"status_tool":"get_mail","status_argument":"to","result_id":"/structuredContent/id"},
			{"match":"onward"}]},
		"forward":{"preset":"forward","server":"forward","principal":["header:x-user"],"tools":[
			{"match":"get_*","guard":"off"},
			{"match":"transfer","exclude":["/confirmed"],"not_done":[{"pointer":"/structuredContent/status","equals":"confirm"}]}]}},
		"routes":{"sep3182":"sep3182","derived":"derived","forward":"forward"},"default":"gateway"}`
	s := &stage{works: map[string]*gate{}}
	u := newUpstream(t, s.answer)
	p := f.Start(t, Setup{Config: config, Upstream: u.URL, Routes: []Route{{When: "sep3182"}, {When: "derived"}, {When: "forward"}}})
	for _, design := range []struct {
		name string
		play func(*actor)
	}{{"gateway", playGateway}, {"sep3182", playSEP3182}, {"derived", playDerived}, {"forward", playForward}} {
		t.Run(design.name, func(t *testing.T) {
			c := newClient(t, p)
			design.play(&actor{T: t, client: c, stage: s, server: u, proxy: p, preset: design.name})
		})
	}
}

// stage is a server that plays what a call's header X-Play names.
type stage struct {
	mu    sync.Mutex
	works map[string]*gate // of calls that wait, by the header X-Wait
}

func (s *stage) gate(name string) *gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.works[name] == nil {
		s.works[name] = newGate()
	}
	return s.works[name]
}

func (s *stage) answer(w http.ResponseWriter, r seen) {
	switch r.Rpc {
	case "tools/call":
	case "tools/list":
		writeJSON(w, `{"jsonrpc":"2.0","id":`+r.ID+`,"result":{"tools":[{"name":"charge","inputSchema":{"type":"object"}},{"name":"get_charge","inputSchema":{"type":"object"}}]}}`)
		return
	case "initialize":
		writeJSON(w, `{"jsonrpc":"2.0","id":`+r.ID+`,"result":{"capabilities":{"tools":{}}}}`)
		return
	default:
		writeJSON(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		return
	}
	if name := r.Header.Get("X-Wait"); name != "" && !s.gate(name).wait(r) {
		return
	}
	switch play := r.Header.Get("X-Play"); play {
	case "":
		asJSON(w, r)
	case "events":
		asEvents(w, r)
	case "created":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(201)
		_, _ = io.WriteString(w, result(r))
	case "error":
		writeJSON(w, answerTo(r, `"error":{"code":-32603,"message":"no"}`))
	case "tool_error":
		writeJSON(w, answerTo(r, `"result":{"isError":true,"content":[]}`))
	case "confirm":
		writeJSON(w, answerTo(r, `"result":{"content":[],"structuredContent":{"status":"confirm"}}`))
	case "lost":
		hangUp(w)
	case "long":
		writeJSON(w, answerTo(r, `"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 70<<10)+`"}]}`))
	case "packed":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, result(r))
		_ = z.Close()
	default:
		var code int
		_, _ = fmt.Sscan(play, &code)
		w.WriteHeader(code)
	}
}

// actor plays the callers of one preset.
type actor struct {
	*testing.T
	client *client
	stage  *stage
	server *upstream
	proxy  Proxy
	preset string
}

// say sends a body as ada, on the preset's route.
func (a *actor) say(body string, h ...string) reply { return a.client.post(body, a.headers(h)...) }

func (a *actor) headers(h []string) headers {
	return append(headers{"X-User", "ada", "X-Route", a.preset}, h...)
}

// runs plays calls, and counts what reached the server meanwhile.
func (a *actor) runs(what string, want int, play func()) {
	a.Helper()
	before := a.server.Runs()
	play()
	if n := a.server.Runs() - before; n != want {
		a.Errorf("%s: ran %d times, expected %d", what, n, want)
	}
}

// whileItRuns begins a call, plays while it runs, and gives its answer.
func (a *actor) whileItRuns(body, name string, play func(), h ...string) reply {
	a.Helper()
	runs := a.server.Runs()
	first := a.client.begin(body, append(a.headers(h), "X-Wait", name)...)
	a.server.await(a, runs+1)
	play()
	a.stage.gate(name).open()
	return first.wait(a)
}

// got holds an answer to a word: first, replay, or the type of a refusal in whatever shape.
func (a *actor) got(what string, r reply, want string) reply {
	a.Helper()
	switch refused := strings.Contains(r.Body, `"may_have_run"`); {
	case r.Err != nil:
		a.Errorf("%s: %v", what, r.Err)
	case want == "first":
		if refused || r.Header.Get("Idempotency-Replayed") != "" {
			a.Errorf("%s: expected a run, found %d %v %s", what, r.Status, r.Header, r.Body)
		}
	case want == "replay":
		if refused || r.Header.Get("Idempotency-Replayed") != "true" {
			a.Errorf("%s: expected a replay, found %d %v %.300s", what, r.Status, r.Header, r.Body)
		}
	case !refused || !strings.Contains(r.Body, `"`+want+`"`):
		a.Errorf("%s: expected %s, found %d %.300s", what, want, r.Status, r.Body)
	}
	return r
}

// refused is got for a refusal with a status.
func (a *actor) refused(what string, r reply, status int, kind string) reply {
	a.Helper()
	if a.got(what, r, kind); r.Status != status {
		a.Errorf("%s: expected %d, found %d", what, status, r.Status)
	}
	return r
}

// playGateway is G1 to G15 of the gateway's record.
func playGateway(a *actor) {
	within := func(session, key, args string, h ...string) reply {
		return a.say(toolCall("1", "charge", args), append(headers{"Idempotency-Key", key, "Mcp-Session-Id", session}, h...)...)
	}
	charge := func(key, args string, h ...string) reply { return within("s1", key, args, h...) }
	a.runs("G1: without the header nothing changes", 2, func() {
		for range 2 {
			a.got("no key", a.say(toolCall("1", "charge", `{"idempotency_key":"k"}`)), "first")
		}
	})
	a.runs("G2, G3, G5: refused before anything runs", 0, func() {
		a.refused("G2: another method of MCP", a.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Idempotency-Key", "k"), 400, "idempotency_unsupported_request")
		a.refused("G2: a tool that is not guarded", a.say(toolCall("1", "get_charge", `{}`), "Idempotency-Key", "k"), 400, "idempotency_unsupported_request")
		a.refused("G2: a batch", a.say("["+toolCall("1", "charge", `{}`)+"]", "Idempotency-Key", "k"), 400, "idempotency_unsupported_request")
		a.refused("G3: no key in the header", charge("", `{}`), 400, "idempotency_key_invalid")
		a.refused("G3: too long", charge(strings.Repeat("k", 256), `{}`), 400, "idempotency_key_invalid")
		a.refused("G3: two lines", charge("a", `{}`, "Idempotency-Key", "b"), 400, "idempotency_key_invalid")
		a.refused("G5: nobody", a.client.call("1", "charge", `{}`, "k"), 400, "idempotency_requires_verified_identity")
	})
	a.runs("G6, G7: once", 1, func() {
		first := a.got("the call", charge("k1", `{"n":1}`, "X-Play", "created"), "first")
		again := a.got("G7: its repeat", charge("k1", `{"n": 1}`), "replay")
		if again.Status != 201 || again.Body != first.Body || again.Header.Get("Content-Type") != "application/json" {
			a.Errorf("G7: the replay is %d %v %s", again.Status, again.Header, again.Body)
		}
		a.refused("G6: other arguments", charge("k1", `{"n":2}`), 409, "idempotency_key_conflict")
		a.refused("G6: another id", a.say(toolCall("2", "charge", `{"n":1}`), "Idempotency-Key", "k1", "Mcp-Session-Id", "s1"), 409, "idempotency_key_conflict")
	})
	a.runs("G5: another session, another user", 2, func() {
		a.got("another session", a.say(toolCall("1", "charge", `{"n":1}`), "Idempotency-Key", "k1", "Mcp-Session-Id", "s2"), "first")
		a.got("another user", a.client.post(toolCall("1", "charge", `{"n":1}`), "X-User", "bob", "Idempotency-Key", "k1", "Mcp-Session-Id", "s1"), "first")
	})
	for play, want := range map[string][2]string{
		"error": {"G7", "replay"}, "tool_error": {"G7", "replay"}, "events": {"G10", "replay"},
		"400": {"G8", "first"}, "429": {"G8", "first"}, "503": {"G8", "first"}, "408": {"G8", unknownOutcome},
		"500": {"G9", unknownOutcome}, "lost": {"G9", unknownOutcome},
		"long": {"G10", "idempotency_response_not_replayable"}, "packed": {"G10", "idempotency_response_not_replayable"},
	} {
		runs := 1
		if want[1] == "first" {
			runs = 2
		}
		session := "of " + play // each its own scope, which keeps few tombstones
		a.runs(want[0]+": "+play, runs, func() {
			_ = within(session, "k", `{}`, "X-Play", play)
			a.got(want[0]+": after "+play, within(session, "k", `{}`, "X-Play", play), want[1])
		})
	}
	a.runs("G11: once", 1, func() {
		a.got("the call that ran", a.whileItRuns(toolCall("1", "charge", `{}`), "gateway", func() {
			r := a.client.once("POST", toolCall("1", "charge", `{}`), a.headers(headers{"Idempotency-Key", "slow", "Mcp-Session-Id", "s11"}))
			if a.refused("G11: in flight", r, 409, "idempotency_in_flight"); r.Header.Get("Retry-After") != "1" {
				a.Errorf("G11: Retry-After %q", r.Header.Get("Retry-After"))
			}
		}, "Idempotency-Key", "slow", "Mcp-Session-Id", "s11"), "first")
	})
	a.runs("G13: 32 entries of a scope, the oldest goes", 34, func() {
		for i := range 33 {
			a.got("filling", within("s13", fmt.Sprint("fill", i), `{}`), "first")
		}
		a.got("G13: the youngest is kept", within("s13", "fill32", `{}`), "replay")
		a.got("G13: the oldest is not", within("s13", "fill0", `{}`), "first")
	})
	a.runs("G13: eight tombstones of a scope", 8, func() {
		for i := range 8 {
			_ = within("s13t", fmt.Sprint("tomb", i), `{}`, "X-Play", "500")
		}
		if r := a.refused("G13: one more", within("s13t", "tomb8", `{}`), 429, "idempotency_capacity"); r.Header.Get("Retry-After") == "" {
			a.Error("G13: a 429 without Retry-After")
		}
	})
	for outcome, least := range map[string]int64{"first": 40, "replay": 5, "conflict": 2, "in_flight": 1, "unknown_outcome": 3, "not_replayable": 2, "capacity": 1, "rejected": 7} {
		if n := a.proxy.Counter(a, "mcp_gateway_idempotency_total", map[string]string{"server": "gateway", "outcome": outcome}); n < least {
			a.Errorf("G15: %d counted as %s, expected %d at least", n, outcome, least)
		}
	}
	for reason, least := range map[string]int64{"idempotency_unsupported_request": 3, "idempotency_key_invalid": 3, "idempotency_requires_verified_identity": 1, "idempotency_key_conflict": 2, "idempotency_capacity": 1} {
		eventually(a, fmt.Sprintf("%d refusals counted as %s", least, reason), func() bool {
			return a.proxy.Counter(a, "callonce_refusals_total", map[string]string{"server": "gateway", "reason": reason}) >= least
		})
	}
	for _, how := range []string{"error", "tool_error"} {
		if n := a.proxy.Counter(a, "callonce_completed_errors_total", map[string]string{"server": "gateway", "tool": "*", "how": how}); n != 1 {
			a.Errorf("%d kept failures counted as %s, expected 1", n, how)
		}
	}
	for _, line := range a.proxy.AccessLog(a) {
		if h := line["key_hash"]; h != "" && h != "-" && len(h) != 16 {
			a.Errorf("G15: a key shows as %q", h)
		}
	}
}

// playSEP3182 is S1 to S7.
func playSEP3182(a *actor) {
	body := func(id, key, args string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"idempotencyKey":"` + key + `","name":"charge","arguments":` + args + `}}`
	}
	a.runs("S2: no key: a retry of a lost response charges twice", 2, func() {
		for range 2 {
			a.got("no key", a.say(toolCall("1", "charge", `{}`)), "first")
		}
	})
	a.runs("S2: a key: once", 1, func() {
		a.got("the call", a.say(body("1", "schlüssel", `{"a":1,"b":[2]}`)), "first")
		r := a.got("S3: the same call, spelt otherwise", a.say(body(`"two"`, "schlüssel", `{ "b":[2.0], "a":1e0 }`)), "replay")
		if idOf(a, r) != `"two"` {
			a.Errorf("the replay has the id %s", idOf(a, r))
		}
		a.refused("S2: other arguments", a.say(body("3", "schlüssel", `{"a":2,"b":[2]}`)), 200, "idempotency_key_conflict")
	})
	a.runs("S1: the key as an argument", 1, func() {
		args := `{"n":1,"idempotencyKey":"arg"}`
		a.got("the call", a.say(toolCall("1", "charge", args)), "first")
		a.got("its repeat", a.say(toolCall("2", "charge", args)), "replay")
		if all := a.server.Seen(); strings.Contains(all[len(all)-1].Body, "idempotencyKey") {
			a.Errorf("S1: the server got the key: %s", all[len(all)-1].Body)
		}
	})
	a.runs("S4: in flight", 1, func() {
		a.got("the call that ran", a.whileItRuns(body("1", "slow", `{}`), "sep3182", func() {
			a.refused("S4", a.client.once("POST", body("2", "slow", `{}`), a.headers(nil)), 200, "idempotency_key_in_progress")
		}), "first")
	})
	a.runs("S5: an error is replayed", 1, func() {
		_ = a.say(body("1", "fails", `{}`), "X-Play", "error")
		a.got("S5", a.say(body("2", "fails", `{}`)), "replay")
	})
	if r := a.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`); !strings.Contains(r.Body, `"idempotency":{}`) {
		a.Errorf("S6: not advertised: %s", r.Body)
	}
	a.runs("S7: another caller; another session of the same", 1, func() {
		a.got("another caller", a.client.post(body("1", "schlüssel", `{"a":1,"b":[2]}`), "X-User", "bob", "X-Route", "sep3182"), "first")
		a.got("another session", a.say(body("9", "schlüssel", `{"a":1,"b":[2]}`), "Mcp-Session-Id", "elsewhere"), "replay")
	})
}

// playDerived is D1 to D12, but for what time does.
func playDerived(a *actor) {
	call := func(tool, args string, h ...string) reply { return a.say(toolCall("1", tool, args), h...) }
	a.runs("D1, D3, D6: one intent", 1, func() {
		a.got("the call", call("mail", `{"to":"x","n":1,"sent_at":"a","at":61}`), "first")
		r := a.got("its repeat", call("mail", `{ "at":119, "n":1.0, "to":"x", "sent_at":"b" }`), "replay")
		if !strings.Contains(r.Body, `"callonce.dev/replayed":true`) || strings.Contains(r.Body, "isError") {
			a.Errorf("D6: a duplicate gets %s", r.Body)
		}
	})
	a.runs("D1: other arguments, another tool, another caller", 3, func() {
		a.got("other arguments", call("mail", `{"to":"x","n":2,"at":61}`), "first")
		a.got("another tool", call("charge", `{"to":"x","n":1,"at":61}`), "first")
		a.got("another caller", a.client.post(toolCall("1", "mail", `{"to":"x","n":1,"at":61}`), "X-User", "bob", "X-Route", "derived"), "first")
	})
	a.runs("D2: an explicit key overrides", 2, func() {
		for _, key := range []string{"one", "two", "one", "two"} {
			_ = call("charge", `{"same":true,"idempotency_key":"`+key+`"}`)
		}
	})
	a.runs("D5: a failed one is taken over", 3, func() {
		a.got("a JSON-RPC error", call("charge", `{"fails":1}`, "X-Play", "error"), "first")
		a.got("a tool's error", call("charge", `{"fails":1}`, "X-Play", "tool_error"), "first")
		a.got("a result", call("charge", `{"fails":1}`), "first")
		a.got("and no more", call("charge", `{"fails":1}`), "replay")
	})
	a.runs("D5: a lost one is not", 1, func() {
		_ = call("charge", `{"lost":1}`, "X-Play", "lost")
		a.refused("its repeat", call("charge", `{"lost":1}`), 200, unknownOutcome)
	})
	a.runs("D7: in progress", 1, func() {
		args := `{"to":"slow"}`
		a.got("the call that ran", a.whileItRuns(toolCall("1", "mail", args), "derived", func() {
			r := a.refused("D7", a.client.once("POST", toolCall("2", "mail", args), a.headers(nil)), 200, "idempotency_in_flight")
			if !strings.Contains(r.Body, "Do not retry; call get_mail with the same to") || !strings.Contains(r.Body, `"isError":true`) {
				a.Errorf("D7: %s", r.Body)
			}
		}), "first")
	})
	a.runs("D8: beyond 64 KiB the repeat is told where to look", 1, func() {
		_ = call("mail", `{"to":"long"}`, "X-Play", "long")
		if r := a.refused("D8", call("mail", `{"to":"long"}`), 200, "idempotency_response_not_replayable"); !strings.Contains(r.Body, "get_mail") {
			a.Errorf("D8: %s", r.Body)
		}
	})
	a.runs("D11: reads cost nothing, and run each time", 2, func() {
		for range 2 {
			a.got("a read", call("get_mail", `{"to":"x"}`), "first")
		}
	})
	if r := a.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); strings.Count(r.Body, "idempotency_key") != 1 {
		a.Errorf("D2: advertised %s", r.Body)
	}
	eventually(a, "D12: three repeats of mail counted", func() bool {
		return a.proxy.Counter(a, "callonce_duplicates_total", map[string]string{"server": "derived", "tool": "mail"}) >= 3
	})
}

// playForward is F1 to F5.
func playForward(a *actor) {
	last := func() seen {
		all := a.server.Seen()
		return all[len(all)-1]
	}
	call := func(id, args string, h ...string) reply { return a.say(toolCall(id, "transfer", args), h...) }
	a.runs("F1, F2, F3: once", 1, func() {
		a.got("the call", call("1", `{"idempotency_key":"k1","cents":5}`), "first")
		if s := last(); fmt.Sprint(s.Header.Values("X-Idempotency-Key")) != "[k1]" || s.Args != `{"cents":5}` || s.Header.Get("Idempotency-Key") != "" {
			a.Errorf("F2: the server got %v %s", s.Header, s.Args)
		}
		a.got("F3: its repeat", call("2", `{"cents":5,"idempotency_key":"k1"}`), "replay")
		if r := a.refused("F3: another body", call("3", `{"idempotency_key":"k1","cents":6}`), 200, "idempotency_key_conflict"); !strings.Contains(r.Body, "IDEMPOTENCY_KEY_REUSED") || !strings.Contains(r.Body, `"isError":true`) {
			a.Errorf("F3: %s", r.Body)
		}
	})
	a.runs("F1: a key that cannot go on in a header", 0, func() {
		a.refused("not ASCII", call("1", `{"idempotency_key":"schlüssel"}`), 200, "idempotency_key_invalid")
		a.refused("too long", call("1", `{"idempotency_key":"`+strings.Repeat("k", 256)+`"}`), 200, "idempotency_key_invalid")
	})
	a.runs("F1: without a key nothing is guarded", 2, func() {
		for range 2 {
			a.got("no key", call("1", `{"cents":5}`), "first")
		}
	})
	a.runs("F4: after an unknown outcome it goes on again, under the same key", 2, func() {
		_ = call("1", `{"idempotency_key":"lost"}`, "X-Play", "lost")
		a.got("the repeat", call("2", `{"idempotency_key":"lost"}`), "first")
		if k := last().Header.Get("X-Idempotency-Key"); k != "lost" {
			a.Errorf("F4: it went on under %q", k)
		}
		a.got("and then", call("3", `{"idempotency_key":"lost"}`), "replay")
	})
	a.runs("F5: confirm first, then run", 2, func() {
		a.got("the first step", call("1", `{"idempotency_key":"c"}`, "X-Play", "confirm"), "first")
		a.got("the confirmed call", call("2", `{"idempotency_key":"c","confirmed":true}`), "first")
		a.got("confirmed again", call("3", `{"idempotency_key":"c","confirmed":true}`), "replay")
		a.got("a late first step", call("4", `{"idempotency_key":"c"}`), "replay")
	})
	if r := a.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); strings.Count(r.Body, `"idempotency_key":{`) != 1 {
		a.Errorf("F1: advertised %s", r.Body)
	}
}
