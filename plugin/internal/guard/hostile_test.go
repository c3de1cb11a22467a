package guard

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// hostile are texts that end a line of a log, steer a terminal, or show as what they are
// not. They are listed by themselves, not taken from what is tested.
var hostile = []string{
	"\x00", "\t", "\n", "\r", "\x1b[2K", "\x7f", "\u0080", "\u0085", "\u009b31m", "\u009f", "\u2028", "\u2029",
	"\u061c", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069",
}

func checkPublished(t *testing.T, where, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s is not UTF-8: %q", where, text)
	}
	for _, h := range hostile {
		c, _ := utf8.DecodeRuneInString(h)
		if strings.ContainsRune(text, c) {
			t.Errorf("%s lets %U through: %q", where, c, text)
		}
	}
}

// Everything that is published, of calls with hostile texts in all places that a caller, a
// server, a route or a configuration chooses.
func TestNothingHostileIsPublished(t *testing.T) {
	for _, h := range append(slices.Clone(hostile), "\xff", "\xc3", "é"+strings.Repeat("é", 200), strings.Repeat("x", 126)+"\u2028") {
		w := newWorld(t)
		quoted, err := json.Marshal("n" + strings.ToValidUTF8(h, "?"))
		if err != nil {
			t.Fatal(err)
		}
		// As raw as JSON allows: only what must be escaped is.
		raw := "n" + h
		if c := h[0]; c < ' ' {
			raw = strings.Trim(string(quoted), `"`)
		}
		policyName, tool := string(quoted), `"`+raw+`"`
		if len(policyName) > 60 {
			policyName = `"p"` // a name that long is refused
		}
		config := `{"policies":{` + policyName + `:{"anonymous":true,"log_unkeyed":true,"limits":{"in_flight":2},"tools":[` +
			`{"match":"must","guard":"required","status_tool":` + policyName + `},{"match":"*","result_id":"/id","status_tool":` + policyName + `}]}},"default":` + policyName + `}`
		g := w.worker(config)
		fields := 0
		check := func(x *exchange) {
			for name, value := range x.state {
				fields++
				checkPublished(t, name, value)
				if len(value) > maxPublished {
					t.Errorf("%s has %d bytes", name, len(value))
				}
			}
			for name, value := range x.headers {
				checkPublished(t, "the header "+name, value)
			}
			var refused struct {
				Error struct{ Message string }
			}
			if x.status != 0 && json.Unmarshal([]byte(x.reply), &refused) == nil {
				checkPublished(t, "a refusal", refused.Error.Message)
			}
		}
		send := func(body string, more ...string) *exchange {
			x := w.open(g, append(more, "mcp-session-id", "s"+h)...)
			x.properties["xds.virtual_host_name"] = "vh" + strings.ToValidUTF8(h, "?")
			if slices.Contains(more, "x-lost") {
				x.properties["xds.route_metadata.filter_metadata.callonce.policy"] = "no" + h
				x.properties["xds.route_name"] = "route" + h
			}
			x.arrive(body)
			check(x)
			return x
		}
		call := strings.Replace(toolCall(tool, `{}`), `"charge"`, tool, 1)
		first := send(call, "idempotency-key", "k")
		send(call, "idempotency-key", "k")
		send(strings.Replace(call, `{}`, `{"a":1}`, 1), "idempotency-key", "k")
		send(call, "idempotency-key", "k"+h)
		send(call)
		send(strings.Replace(call, tool, `"must"`, 2))
		send(call, "idempotency-key", "k", "x-lost", "1")
		send(call, "idempotency-key", "k", "mcp-name", "x"+h)
		send(call+"x", "idempotency-key", "k")
		send(`{"id":`+tool+`,"method":`+tool+`}`, "idempotency-key", "k")
		if first.sent {
			first.answer(200, "application/json", `{"jsonrpc":"2.0","id":`+tool+`,"result":{"id":`+tool+`}}`)
			check(first)
			send(call, "idempotency-key", "k").stream.Done()
		}
		lost := send(call, "idempotency-key", "lost")
		lost.stream.Done()
		send(call, "idempotency-key", "lost")
		w.memory.broken = true
		send(call, "idempotency-key", "broken")
		g.log("a line to come " + h)
		for name := range maps.Keys(w.counts) {
			checkPublished(t, "a metric", name)
		}
		for name := range maps.Keys(w.gauges) {
			checkPublished(t, "a metric", name)
		}
		for _, line := range w.logs {
			checkPublished(t, "a log", line)
		}
		if fields < 10 || len(w.counts) == 0 || len(w.logs) == 0 {
			t.Errorf("%q: %d fields, %d counters, %d lines were looked at", h, fields, len(w.counts), len(w.logs))
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                 "",
		"charge":           "charge",
		"été":              "été",
		"a\u0085b":         "a?b",
		"a\u202eb":         "a?b",
		"a\xffb":           "a\ufffdb",
		"a\xc3":            "a\ufffd",
		"a\u2028":          "a?",
		"12345678é":        "12345678",
		"1234567é":         "1234567é",
		"123456\U0001F600": "123456",
		"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80": "",
	} {
		if got := OneLine(in, 9); got != want {
			t.Errorf("%q: expected %q, found %q", in, want, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _ = OneLine("an ordinary name", maxPublished) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A label ends where it ends, whatever is its value.
func TestHostileLabels(t *testing.T) {
	for value, want := range map[string]string{"a": "a", "a;.;b": "a%3B.%3Bb", "a;.": "a%3B.", "a;": "a%3B", "%3B": "%253B", "a=.=": "a%3D.%3D", "a\nb": "a?b"} {
		c := newCounts("n", newWorld(t))
		got := c.fullName(keyOf(value, decisions, []string{"x"}))
		if got != fmt.Sprint("namespace=.=n;.;server=.=", want, ";.;outcome=.=x;.;mcp_gateway_idempotency_total") {
			t.Errorf("%q is spelt %s", value, got)
		}
	}
}
