package guard

import (
	"strings"
	"testing"
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
