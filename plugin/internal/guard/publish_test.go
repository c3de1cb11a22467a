package guard

import (
	"strings"
	"testing"
	"time"
)

// Access logs are lines, and what a caller or a server chose stands in them: it must
// neither end a line nor steer a terminal.
func TestPublishedNamesStayInTheirLine(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"server":"srv","anonymous":true,"tools":[{"match":"*","result_id":"/id"}]}},"default":"p"}`)
	for i, c := range []struct{ text, want string }{
		{`charge`, "charge"},
		{`été \"x\" \\`, `été "x" \`},
		{`a\n200 tool=b`, "a?200 tool=b"},
		{`a\r\u0000\u001b[2Kb`, "a???[2Kb"},
		{`a\u007fb\u0085c\u009bd`, "a?b?c?d"},
		{`a\u2028b\u2029c`, "a?b?c"},
		{strings.Repeat("x", 127) + "é", strings.Repeat("x", 127)},
		{strings.Repeat("é", 100), strings.Repeat("é", 64)},
	} {
		x := w.send(g, strings.Replace(toolCall("1", `{}`), "charge", c.text, 1), "idempotency-key", string(rune('a'+i)))
		x.wantSent()
		if got := x.state["callonce.tool"]; got != c.want {
			t.Errorf("tool %s is published as %q, want %q", c.text, got, c.want)
		}
		x.answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"id":"`+c.text+`"}}`)
		if got := x.state["callonce.result_id"]; got != c.want {
			t.Errorf("result %s is published as %q, want %q", c.text, got, c.want)
		}
	}
}

// What differs between a repeat and the first call tells who repeated it.
func TestDuplicateSource(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, repeat string // session
		id            string
		works, later  time.Duration
		want          string
		stillRunning  bool
	}{
		{"same session and id", "s", "s", "1", 0, time.Hour / 60, "transport", false},
		{"other id, soon", "s", "s", "2", 0, time.Second, "harness", false},
		{"other id, soon after the end", "s", "s", "2", time.Minute, time.Second, "harness", false},
		{"other id, later", "s", "s", "2", 0, time.Second + 1, "model", false},
		{"other session", "s", "z", "1", 0, 0, "reconnect", false},
		{"no session, same id", "", "", "1", 0, time.Minute, "transport", false},
		{"no session, soon", "", "", "2", 0, time.Second, "harness", false},
		{"no session, later", "", "", "2", 0, time.Minute, "unknown", false},
		{"while it runs", "s", "s", "2", 0, time.Minute, "model", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			g := w.worker(plain)
			w.pass(time.Hour)
			header := func(session string) []string {
				if session == "" {
					return []string{"idempotency-key", "k"}
				}
				return []string{"idempotency-key", "k", "mcp-session-id", session}
			}
			x := w.send(g, toolCall("1", `{}`), header(c.first)...)
			w.pass(c.works)
			if !c.stillRunning {
				x.answer(200, "application/json", okResult)
			}
			w.pass(c.later)
			y := w.send(g, toolCall(c.id, `{}`), header(c.repeat)...)
			if got := y.state["callonce.duplicate_source"]; got != c.want || w.count("callonce_duplicates_total", "source=.="+c.want) != 1 {
				t.Errorf("expected %s, found %q, %v", c.want, got, w.counts)
			}
		})
	}
}

// The fields that access logs and traces can group by.
func TestPublished(t *testing.T) {
	w := newWorld(t)
	g := w.worker(anyone(`,"log_unkeyed":true,"tools":[{"match":"charge","result_id":"/structuredContent/id"}]`))
	body := func(id string) string { return toolCall(id, `{"a":1}`) }
	x := w.send(g, body(`"r1"`), "idempotency-key", "k", "mcp-session-id", "sess")
	x.answer(200, "application/json", `{"jsonrpc":"2.0","id":"r1","result":{"structuredContent":{"id":"ch_9"}}}`)
	unkeyed := w.send(g, body("2"), "mcp-session-id", "sess")
	unkeyed.wantSent()
	for name, want := range map[string]string{"tool": "charge", "request_id": `"r1"`, "result_id": "ch_9", "attempt": "1", "outcome": "first"} {
		if got := x.state["callonce."+name]; got != want {
			t.Errorf("%s: expected %q, found %q", name, want, got)
		}
	}
	for _, name := range []string{"arguments_hash", "session_hash"} {
		if got := x.state["callonce."+name]; len(got) != 16 || got != unkeyed.state["callonce."+name] {
			t.Errorf("%s: %q, and %q without a key", name, got, unkeyed.state["callonce."+name])
		}
	}
	if _, ok := unkeyed.state["callonce.outcome"]; ok || unkeyed.state["callonce.key_hash"] != "" {
		t.Errorf("a call that is not guarded has an outcome: %v", unkeyed.state)
	}
	if n := w.count("callonce_tool_calls_total", "server=.=srv", "tool=.=charge", "outcome=.=first"); n != 1 {
		t.Errorf("tool calls: %v", w.counts)
	}
	other := w.send(g, body("3"), "authorization", "x")
	if other.state["callonce.arguments_hash"] == x.state["callonce.arguments_hash"] {
		t.Error("two callers' equal arguments have one hash")
	}
}

// What one pass over the table finds is published.
func TestCensus(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	w.send(g, toolCall("1", `{}`), "idempotency-key", "done").answer(200, "application/json", okResult)
	w.send(g, toolCall("1", `{}`), "idempotency-key", "lost").stream.Done()
	w.send(g, toolCall("1", `{}`), "idempotency-key", "running").wantSent()
	for range 40 {
		w.pass(time.Second)
		g.Tick(w.now)
	}
	for state, want := range map[string]uint64{"completed": 1, "outcome_unknown": 1, "in_flight": 1, "not_replayable": 0} {
		if got, ok := w.gauges["namespace=.=ns;.;server=.=srv;.;state=.="+state+";.;callonce_entries"]; !ok || got != want {
			t.Errorf("%s: expected %d, found %d, %v", state, want, got, w.gauges)
		}
	}
	if got := w.gauges["namespace=.=ns;.;server=.=srv;.;callonce_reply_bytes"]; got != uint64(len(okResult)) {
		t.Errorf("bytes of replies: expected %d, found %d", len(okResult), got)
	}
}
