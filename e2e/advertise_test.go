package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A policy that reads the key from an argument, says so, and cuts it out again.
const byArgument = `{"policies":{"p":{"server":"payments","anonymous":true,"preset":"forward",
	"tools":[{"match":"get_*","guard":"off"},{"match":"list_*","guard":"off"}]}},"default":"p"}`

// Official clients see what the filter adds: the capability, and the argument, which a
// model then sends. The server, whose schema does not know it, never does.
func TestAdvertise(t *testing.T) {
	for _, proxy := range proxies {
		for _, answer := range answers[:2] {
			t.Run(proxy.name+"/"+answer.name, func(t *testing.T) {
				server := startPayments(t, answer.opts)
				url := proxy.start(t, server.URL(), byArgument)
				checkCapability(t, url)
				askAll(t, url+"/mcp", func(client string) []question {
					call := question{Tool: "charge", Arguments: map[string]any{"customer": client, "amount_cents": 1, "idempotency_key": key(client)}}
					other := question{Tool: "charge", Arguments: map[string]any{"customer": client, "amount_cents": 2, "idempotency_key": key(client)}}
					return []question{call, call, other}
				}, func(t *testing.T, client string, seen answersSeen) {
					checkAdverts(t, client, seen)
					a, b := seen.Calls[0], seen.Calls[1]
					if a.Kind != "result" || b.Kind != "result" || a.Structured["charge_id"] != b.Structured["charge_id"] {
						t.Errorf("want one charge twice, got %+v, %+v", a, b)
					}
					if c := seen.Calls[2]; c.Kind != "tool_error" || c.Data["type"] != "idempotency_key_conflict" || fmt.Sprint(c.Data["also"]) != "[IDEMPOTENCY_KEY_REUSED]" {
						t.Errorf("other arguments under the key: want a tool's error, got %+v", c)
					}
					if n := server.Book.CountFor(client); n != 1 {
						t.Errorf("want 1 charge, got %d", n)
					}
				})
			})
		}
	}
}

func checkAdverts(t *testing.T, client string, seen answersSeen) {
	t.Helper()
	for tool, schema := range seen.Tools {
		properties, _ := schema["properties"].(map[string]any)
		property, there := properties["idempotency_key"].(map[string]any)
		want := tool == "charge" || tool == "refund"
		if there != want {
			t.Errorf("%s has the argument: %v, want %v", tool, there, want)
		}
		if text, _ := property["description"].(string); want && !strings.Contains(text, "same value again") {
			t.Errorf("%s: want a description for the model, got %v", tool, property)
		}
		if strings.Contains(fmt.Sprint(schema["required"]), "idempotency_key") {
			t.Errorf("%s: the argument is required", tool)
		}
	}
	if client != "python 1.x" {
		return // the others drop capabilities that they do not know
	}
	capability, _ := seen.Capabilities["tools"].(map[string]any)
	if _, there := capability["idempotency"]; !there {
		t.Errorf("want the capability tools.idempotency, got %v", seen.Capabilities)
	}
}

// checkCapability looks at the bytes: initialize of older protocols, server/discover of
// the newest.
func checkCapability(t *testing.T, url string) {
	t.Helper()
	for _, hello := range []struct {
		body    string
		headers []string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, nil},
		{`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
			[]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover"}},
	} {
		resp, text := send(t, "POST", url, hello.body, hello.headers...)
		if resp.StatusCode != 200 || !strings.Contains(text, `"tools":{"idempotency":{},`) {
			t.Errorf("want the capability tools.idempotency, got %d %s", resp.StatusCode, text)
		}
	}
}

// With strip and forward_key the server gets the call without the key, every other
// byte as it was sent, and the key in the header, once. Under mode observe it gets all
// as it came.
func TestWhatTheServerGets(t *testing.T) {
	const observe = `,"mode":"observe"`
	config := func(more string) string {
		return `{"policies":{"p":{"preset":"forward","server":"s","anonymous":true` + more + `}},"default":"p"}`
	}
	const body = "{ \"jsonrpc\" : \"2.0\",\n\t\"id\":\"\\u0031\", \"method\":\"tools/call\",\"params\":{\"arguments\" : { \"a\":1.0e0,%s \"b\" : \"\\u00e9é\" },\"name\":\"charge\", \"_meta\":{\"progressToken\":7}} }\r\n"
	const key = " \"idempotency_key\" : \"k-1\" ,"
	for _, proxy := range proxies {
		for name, more := range map[string]string{"enforce": "", "observe": observe} {
			t.Run(proxy.name+"/"+name, func(t *testing.T) {
				server := startRecorder(t)
				url := proxy.start(t, server.URL, config(more))
				call := func() (*http.Response, string) {
					return send(t, "POST", url, fmt.Sprintf(body, key), "X-Idempotency-Key", "of-the-caller", "Accept-Encoding", "br")
				}
				resp, text := call()
				if got := outcome(resp, text); got != "first" {
					t.Fatalf("want the first answer, got %s", text)
				}
				got := server.Last()
				forwarded, accept := got.Header["X-Idempotency-Key"], got.Header.Get("Accept-Encoding")
				wantBody, wantKey, wantAccept := fmt.Sprintf(body, " "), "k-1", "" // the space before the member stays
				if more == observe {
					wantBody, wantKey, wantAccept = fmt.Sprintf(body, key), "of-the-caller", "br"
				}
				if got.Body != wantBody {
					t.Errorf("want the body\n%q, got\n%q", wantBody, got.Body)
				}
				if len(forwarded) != 1 || forwarded[0] != wantKey || accept != wantAccept {
					t.Errorf("want the key %s and Accept-Encoding %q, got %q and %q", wantKey, wantAccept, forwarded, accept)
				}
				resp, text = call()
				wantOutcome, wantRuns := "replay", 1
				if more == observe {
					wantOutcome, wantRuns = "first", 2
				}
				if got := outcome(resp, text); got != wantOutcome || server.Runs("charge") != wantRuns {
					t.Errorf("the call again: want %s and %d runs, got %s and %d", wantOutcome, wantRuns, got, server.Runs("charge"))
				}
				// Refused for enforcing eyes only.
				if resp, text = send(t, "POST", url, fmt.Sprintf(body, " \"other\":1,"+key)); strings.Contains(text, "idempotency_key_conflict") != (more == "") {
					t.Errorf("a conflict: got %d %s", resp.StatusCode, text)
				}
				list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
				if resp, text = send(t, "POST", url, list); resp.StatusCode != 200 || server.Last().Body != list {
					t.Errorf("a list: got %d %s", resp.StatusCode, text)
				}
			})
		}
	}
}
