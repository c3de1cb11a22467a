package conformance

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// answersFreed: an answer that frees its key does so at its end. A result may follow what
// names no request, and the tool would run twice.
func answersFreed(t *testing.T, f Front) {
	config := strings.Replace(plain, `"server":"s"`, `"server":"s","tools":[{"match":"*","on_tool_error":"release"}]`, 1)
	kinds := map[string]string{ // what comes first; $ID is the request's
		"unnamed":  `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}`,
		"error":    `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"x"}}`,
		"question": `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required"}}`,
		"isError":  `{"jsonrpc":"2.0","id":$ID,"result":{"isError":true,"content":[]}}`,
	}
	g := newGate()
	defer g.open()
	c, u, _ := serveWith(t, f, config, func(w http.ResponseWriter, s seen) {
		kind, how, _ := strings.Cut(s.Tool, "-")
		first := strings.ReplaceAll(kinds[kind], "$ID", s.ID)
		if how == "chunks" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, first)
			w.(http.Flusher).Flush()
		} else {
			event(w, first)
		}
		if s.ID != "3" && !g.wait(s) {
			return
		}
		switch how {
		case "chunks":
			_, _ = io.WriteString(w, result(s))
		case "result":
			event(w, result(s))
		}
	})
	calls := map[string]*underway{}
	for kind := range kinds {
		for _, how := range []string{"result", "alone", "chunks"} {
			tool := kind + "-" + how
			calls[tool] = c.begin(toolCall("1", tool, `{}`), "Idempotency-Key", tool)
			u.await(t, len(calls))
		}
	}
	for tool := range calls {
		for range 3 {
			wantRefusal(t, c.call("2", tool, `{}`, tool), 409, "idempotency_in_flight")
		}
	}
	wantRuns(t, u, len(calls))
	// Whoever has read that the call did not run need not wait for a stream that stays open.
	runs := len(calls) + 2
	res, err := c.open(t.Context(), "POST", strings.NewReader(toolCall("1", "error-left", `{}`)), headers{"Idempotency-Key", "left"})
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(res.Body); lines.Scan() && lines.Text() != ""; {
	}
	wantRefusal(t, c.call("2", "error-left", `{}`, "left"), 409, "idempotency_in_flight")
	_ = res.Body.Close()
	eventually(t, "the key of a client that left", func() bool { return c.call("3", "error-left", `{}`, "left").isRefusal() == "" })
	wantRuns(t, u, runs)
	g.open()
	for tool, call := range calls {
		if r := call.wait(t); r.isRefusal() != "" {
			t.Fatalf("%s: the first caller got %d %s", tool, r.Status, r.Body)
		}
		again := c.call("3", tool, `{}`, tool)
		switch _, how, _ := strings.Cut(tool, "-"); how {
		case "result":
			wantReplay(t, again)
			if !strings.Contains(again.Body, `"text":"run `) {
				t.Errorf("%s: not the result: %s", tool, again.Body)
			}
		case "chunks":
			wantRefusal(t, again, 409, unknownOutcome)
		default:
			if runs++; again.Header.Get("Idempotency-Replayed") != "" || again.isRefusal() != "" {
				t.Errorf("%s: expected another run, found %d %s", tool, again.Status, again.Body)
			}
		}
	}
	wantRuns(t, u, runs)
}
