package guard

import (
	"fmt"
	"strings"
	"testing"
)

// Answers that say what the server can do gain what the filter adds.
func TestAdvertise(t *testing.T) {
	list := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"charge","inputSchema":{"type":"object","properties":{}}}]}}`
	request := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	events := func(data string) string { return "event: message\ndata: " + data + "\n\n" }
	for _, c := range []struct {
		name, config, request string
		headers               []string
		content, body         string
		encoding              string
		want                  string // part of what passes, "" = the body as it came
	}{
		{"a list", preset("derived", ""), request, nil, "application/json", list, "", `"properties":{"idempotency_key":`},
		{"a list, as events", preset("derived", ""), request, nil, "text/event-stream", events(`{"jsonrpc":"2.0","method":"n"}`) + events(list), "", `"properties":{"idempotency_key":`},
		{"a list, told by header", preset("forward", ""), request, []string{"mcp-method", "tools/list"}, "application/json", list, "", `"properties":{"idempotency_key":`},
		{"a list, of SEP-3182's argument", preset("sep3182", ""), request, nil, "application/json", list, "", `"properties":{"idempotencyKey":`},
		{"a list, key not in an argument", preset("sep3182", `,"keys":["json:/params/idempotencyKey"]`), request, nil, "application/json", list, "", ""},
		{"initialize", preset("sep3182", ""), `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, nil, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"capabilities":{"tools":{}}}}`, "", `"tools":{"idempotency":{}}`},
		{"discover", preset("sep3182", ""), `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, nil, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"capabilities":{"tools":{}}}}`, "", `"tools":{"idempotency":{}}`},
		{"keys in headers only", anyone(`,"keys":["header:x-key"],"advertise":true`), `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, nil, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"capabilities":{"tools":{}}}}`, "", `"tools":{"idempotency":{}}`},
		{"not advertised", plain, request, nil, "application/json", list, "", ""},
		{"observed", preset("derived", `,"mode":"observe"`), request, nil, "application/json", list, "", ""},
		{"encoded", preset("derived", ""), request, nil, "application/json", list, "gzip", ""},
		{"broken", preset("derived", ""), request, nil, "application/json", list[:60], "", ""},
		{"events without an end", preset("derived", ""), request, nil, "text/event-stream", "data: {", "", ""},
		{"too long", preset("derived", ""), request, nil, "application/json", list[:len(list)-1] + strings.Repeat(" ", maxAdvertised+1) + "}", "", ""},
		{"another method", preset("derived", ""), `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`, nil, "application/json", list, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			x := w.send(w.worker(c.config), c.request, append([]string{user, "ada"}, c.headers...)...)
			x.wantSent()
			x.begin(200, c.content, "content-length", fmt.Sprint(len(c.body)), "content-encoding", c.encoding)
			got := ""
			for rest := c.body; rest != ""; {
				n := min(len(rest), 1+len(c.body)/9)
				x.chunk, rest = []byte(rest[:n]), rest[n:]
				if x.stream.ResponseBody(n, false) == Pause {
					t.Fatal("an answer was left in the proxy")
				}
				got += string(x.chunk)
			}
			x.chunk = nil
			x.stream.ResponseBody(0, true)
			got += string(x.chunk)
			x.stream.Done()
			if c.want == "" && got != c.body {
				t.Errorf("expected it as it came, found %.200s", got)
			}
			if c.want != "" && (!strings.Contains(got, c.want) || len(x.response) != 3) {
				t.Errorf("expected %s in %s; headers %v", c.want, got, x.response)
			}
		})
	}
}

// A stream that is used again knows nothing of the one before: here, not its id.
func TestAdvertiseOnAStreamUsedAgain(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("forward", ""))
	x := w.send(g, toolCall("7", `{}`), user, "ada")
	x.answer(200, "application/json", okResult)
	x.stream.Reuse(streams + 1)
	x.sent = x.stream.RequestHeaders(false) == Continue
	x.stream.Done()
	x.request = append(x.request, [2]string{"mcp-method", "tools/list"})
	x.stream.Reuse(streams + 2)
	if x.stream.RequestHeaders(false) != Continue {
		t.Fatal("a list was buffered")
	}
	x.begin(200, "application/json")
	x.chunk = []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"charge","inputSchema":{"type":"object"}}]}}`)
	x.stream.ResponseBody(len(x.chunk), false)
	if !strings.Contains(string(x.chunk), `"properties":{"idempotency_key":`) {
		t.Errorf("no advert: %s", x.chunk)
	}
}
