package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	callonce "github.com/callonce/callonce/clients/go"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/tools"
)

// recipe is the filter under hostsim with a policy's members, in front of a server that
// breaks as ordered, and behind a connection that is cut as ordered.
func recipe(t *testing.T, members string) (book *payments.Book, url string) {
	book, server := fragile(t)
	return book, cutting(t, proxies[0].start(t, server, `{"policies":{"p":{"server":"s","anonymous":true,`+members+`}},"default":"p"}`)) + "/mcp"
}

const chargeGuarded = `"reply":"tool_result","tools":[{"match":"charge","guard":"required","status_tool":"list_charges"},{"match":"*","guard":"off"}]`

// documented is the filter with the nth configuration of docs/agents.md, in front of a
// server that takes any argument and counts.
func documented(t *testing.T, n int) (*recorder, string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(must(t, tools.Root), "docs", "agents.md"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "```json\n")
	if len(parts) <= n {
		t.Fatalf("docs/agents.md: want a configuration %d, found %d", n, len(parts)-1)
	}
	config, _, _ := strings.Cut(parts[n], "```")
	server := startRecorder(t)
	return server, proxies[0].start(t, server.URL, config) + "/mcp"
}

// The OpenAI Agents SDK repeats by itself; with the model's call id as key it may.
func TestRecipeOpenAIAgents(t *testing.T) {
	python := must(t, tools.AgentsPython)
	book, url := recipe(t, chargeGuarded)
	pay := func(run, note string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), python, "recipes/openai_agents.py", url, run, "ada", note)
		var told strings.Builder
		cmd.Stderr = &told
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), "ch_") {
			t.Fatalf("want a charge, got %v: %s%s", err, out, told.String())
		}
		return string(out)
	}
	first := pay("run-1", cutWithin) // whose answer is lost, and which the SDK repeats
	if again := pay("run-1", cutWithin); again != first {
		t.Errorf("the run taken up again: want %s, got %s", first, again)
	}
	if n := book.Count(); n != 1 {
		t.Errorf("one run: want 1 charge at the server, got %d", n)
	}
	pay("run-2", "")
	if n := book.Count(); n != 2 {
		t.Errorf("another run: want 2 charges at the server, got %d", n)
	}
}

// tellCall sends a charge with members of _meta and further arguments.
func tellCall(t *testing.T, url, meta, arguments string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"customer":"ada"` + arguments + `},"_meta":{` + meta + `}}}`
	return outcome(send(t, "POST", url, body, "X-User", "ada"))
}

// Claude Code sends the id of the model's tool use with each call. As a key it makes one
// tool use run once.
func TestRecipeClaudeCode(t *testing.T) {
	server, url := documented(t, 1)
	for _, step := range []struct{ meta, want string }{
		{`"claudecode/toolUseId":"toolu_1"`, "first"}, {`"claudecode/toolUseId":"toolu_1"`, "replay"},
		{`"claudecode/toolUseId":"toolu_2"`, "first"},
	} {
		if got := tellCall(t, url, step.meta, ""); got != step.want {
			t.Errorf("%s: want %s, got %s", step.meta, step.want, got)
		}
	}
	if n := server.Runs("charge"); n != 2 {
		t.Errorf("want 2 runs, got %d", n)
	}
}

// n8n puts toolCallId, new with each try, into the arguments. Left out of the fingerprint,
// it does not make a repeat another call.
func TestRecipeN8N(t *testing.T) {
	server, url := documented(t, 2)
	for _, step := range []struct{ arguments, want string }{
		{`,"toolCallId":"call_1"`, "first"}, {`,"toolCallId":"call_2"`, "replay"}, {`,"toolCallId":"call_2","amount":2`, "first"},
	} {
		if got := tellCall(t, url, "", step.arguments); got != step.want {
			t.Errorf("%s: want %s, got %s", step.arguments, step.want, got)
		}
	}
	if n := server.Runs("charge"); n != 2 {
		t.Errorf("want 2 runs, got %d", n)
	}
}

// A call whose outcome nobody knows is settled by looking for the id that the client
// made itself (here the customer): it is there, or the call is made anew.
func TestRecipeSearchThenCreate(t *testing.T) {
	book, url := recipe(t, chargeGuarded)
	client := mcp.NewClient(&mcp.Implementation{Name: "callonce-e2e", Version: "1.0.0"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: callonce.Transport{}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	caller := &callonce.Caller{Store: callonce.NewFileStore(filepath.Join(t.TempDir(), "keys.json"))}
	for _, trouble := range []string{lose, crash, ""} {
		id := "order-" + trouble
		create := func(note string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := caller.Do(ctx, id, func(ctx context.Context) error {
				_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "charge", Arguments: map[string]any{"customer": id, "amount_cents": 1, "note": note}})
				return err
			})
			return err
		}
		err := create(trouble)
		if unknown := errors.Is(err, callonce.ErrReconcileFirst); unknown != (trouble != "") || err != nil && !unknown {
			t.Fatalf("%q: got %v", trouble, err)
		}
		if err != nil {
			found, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_charges"})
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(found.StructuredContent)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), `"customer":"`+id+`"`) { // it did not run
				if err := errors.Join(caller.Forget(id), create("")); err != nil {
					t.Fatalf("%q, made anew: %v", trouble, err)
				}
			}
		}
		if n := book.CountFor(id); n != 1 {
			t.Errorf("%q: want 1 charge at the server, got %d", trouble, n)
		}
	}
}

// A key in _meta needs nothing but the call; the Python and TypeScript helpers send it so.
func TestKeyInMeta(t *testing.T) {
	book, url := recipe(t, chargeGuarded+`,"marker":"meta"`)
	session, err := connectGo(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, replayed := range []any{nil, true} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{
			Meta: mcp.Meta{"callonce.dev/idempotency-key": "k"}, Name: "charge", Arguments: map[string]any{"customer": "ada", "amount_cents": 1},
		})
		if err != nil || result.IsError || result.Meta["callonce.dev/replayed"] != replayed {
			t.Errorf("want a result, replayed %v, got %+v, %v", replayed, result, err)
		}
	}
	if n := book.Count(); n != 1 {
		t.Errorf("want 1 charge at the server, got %d", n)
	}
}

// steps is a server whose tool "transfer" asks somebody first, and whose tool "start"
// begins a job that "poll" tells of.
type steps struct{ asked, moved, started, polled atomic.Int32 }

func (s *steps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Params struct{ Name, RequestState string }
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var result string
	switch p := m.Params; {
	case p.Name == "transfer" && p.RequestState == "":
		s.asked.Add(1)
		result = `{"resultType":"input_required","requestState":"asked","inputRequests":{}}`
	case p.Name == "transfer":
		result = fmt.Sprintf(`{"content":[],"structuredContent":{"moved":%d}}`, s.moved.Add(1))
	case p.Name == "start":
		result = fmt.Sprintf(`{"content":[],"structuredContent":{"job":%d}}`, s.started.Add(1))
	default:
		result = fmt.Sprintf(`{"content":[],"structuredContent":{"polled":%d}}`, s.polled.Add(1))
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// A tool that asks somebody runs once for each step, and a repeated start gets the same job.
func TestRecipeGateAndJob(t *testing.T) {
	server := &steps{}
	url := proxies[0].start(t, serveFunc(t, server.ServeHTTP), `{"policies":{"p":{"server":"s","anonymous":true,
		"tools":[{"match":"poll","guard":"off"},{"match":"*","guard":"required","status_tool":"poll"}]}},"default":"p"}`)
	for i, step := range []struct{ tool, more, key, want, holds string }{
		{"transfer", ``, "gate", "first", `"input_required"`},
		{"transfer", ``, "gate", "first", `"input_required"`}, // asks again: the first question has freed the key
		{"transfer", `,"requestState":"asked","inputResponses":{"a":1}`, "gate", "first", `"moved":1`},
		{"transfer", `,"requestState":"asked","inputResponses":{"a":1}`, "gate", "replay", `"moved":1`},
		{"start", ``, "job", "first", `"job":1`},
		{"start", ``, "job", "replay", `"job":1`},
		{"poll", ``, "", "first", `"polled":1`},
		{"poll", ``, "", "first", `"polled":2`},
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":{}%s}}`, i, step.tool, step.more)
		headers := []string{}
		if step.key != "" {
			headers = append(headers, callonce.Header, step.key)
		}
		resp, answer := send(t, "POST", url, body, headers...)
		if got := outcome(resp, answer); got != step.want || !strings.Contains(answer, step.holds) {
			t.Errorf("step %d, %s: want %s with %s, got %s: %s", i, step.tool, step.want, step.holds, got, answer)
		}
	}
	if moved, started := server.moved.Load(), server.started.Load(); moved != 1 || started != 1 {
		t.Errorf("want one transfer and one job, got %d and %d", moved, started)
	}
}
