package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	keyed "github.com/callonce/callonce/clients/go"
	"github.com/callonce/callonce/e2e/tools"
)

// questions are what an official client is told to do; clients/ask.py says more.
type questions struct {
	URL   string     `json:"url"`
	Calls []question `json:"calls"`
}

type question struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
	Key       string         `json:"key,omitempty"`
	Patience  float64        `json:"patience,omitempty"` // seconds after which the client gives the call up; 0 = 30
	Pause     float64        `json:"pause,omitempty"`    // seconds before the call
}

// answersSeen are what a client showed.
type answersSeen struct {
	Capabilities map[string]any            `json:"capabilities"`
	Tools        map[string]map[string]any `json:"tools"` // name → input schema
	Calls        []answerSeen              `json:"calls"`
}

type answerSeen struct {
	Kind       string         `json:"kind"` // result, tool_error, error, exception, timeout, connection_lost
	Text       string         `json:"text"`
	Code       int            `json:"code"`
	Data       map[string]any `json:"data"`
	Structured map[string]any `json:"structured"`
}

// officialClients ask questions. Python's and TypeScript's are there in both generations.
var officialClients = []struct {
	name string
	ask  func(ctx context.Context, q questions) (answersSeen, error)
}{
	{"go", askGo},
	{"python 1.x", func(ctx context.Context, q questions) (answersSeen, error) { return askPython(ctx, tools.Python, q) }},
	{"python 2.x", func(ctx context.Context, q questions) (answersSeen, error) { return askPython(ctx, tools.Python2, q) }},
	{"typescript 1.x", func(ctx context.Context, q questions) (answersSeen, error) { return askTypeScript(ctx, "1", q) }},
	{"typescript 2.x", func(ctx context.Context, q questions) (answersSeen, error) { return askTypeScript(ctx, "2", q) }},
}

// askAll asks through every official client, each with questions of its own.
func askAll(t *testing.T, url string, calls func(client string) []question, check func(t *testing.T, client string, seen answersSeen)) {
	t.Helper()
	for _, client := range officialClients {
		t.Run(client.name, func(t *testing.T) {
			seen, err := client.ask(t.Context(), questions{url, calls(client.name)})
			if err != nil {
				t.Fatal(err)
			}
			if want := len(calls(client.name)); len(seen.Calls) != want {
				t.Fatalf("want %d answers, got %d", want, len(seen.Calls))
			}
			check(t, client.name, seen)
		})
	}
}

func askPython(ctx context.Context, python func() (string, error), q questions) (answersSeen, error) {
	binary, err := python()
	if err != nil {
		return answersSeen{}, err
	}
	return askScript(exec.CommandContext(ctx, binary, "clients/ask.py"), q)
}

func askTypeScript(ctx context.Context, generation string, q questions) (answersSeen, error) {
	node, err := tools.NodeTools()
	if err != nil {
		return answersSeen{}, err
	}
	return askScript(exec.CommandContext(ctx, node.Binary, "clients/ask.mjs", node.Modules, generation), q)
}

func askScript(cmd *exec.Cmd, q questions) (seen answersSeen, err error) {
	in, err := json.Marshal(q)
	if err != nil {
		return seen, err
	}
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return seen, fmt.Errorf("%s: %w", cmd.Args[1], err)
	}
	if err := json.Unmarshal(out, &seen); err != nil {
		return seen, fmt.Errorf("%s: want one JSON object, got %q: %w", cmd.Args[1], out, err)
	}
	return seen, nil
}

// goPatience bounds one call of the Go client.
const goPatience = 30 * time.Second

func askGo(ctx context.Context, q questions) (seen answersSeen, err error) {
	session, err := connectGo(ctx, q.URL)
	if err != nil {
		return seen, err
	}
	defer func() {
		if session != nil {
			session.Close()
		}
	}()
	listed, err := session.ListTools(ctx, nil)
	if err != nil {
		return seen, err
	}
	seen.Tools = map[string]map[string]any{}
	for _, tool := range listed.Tools {
		schema, _ := tool.InputSchema.(map[string]any)
		seen.Tools[tool.Name] = schema
	}
	for _, call := range q.Calls {
		answer := callGo(ctx, session, call)
		if answer.Kind == "exception" {
			if _, err := session.ListTools(ctx, nil); err != nil {
				answer.Kind = "connection_lost"
				session.Close()
				if session, err = connectGo(ctx, q.URL); err != nil {
					return seen, err
				}
			}
		}
		seen.Calls = append(seen.Calls, answer)
	}
	return seen, nil
}

func connectGo(ctx context.Context, url string) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "callonce-e2e", Version: "1.0.0"}, nil)
	return client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: keyed.Transport{}}}, nil)
}

func callGo(ctx context.Context, session *mcp.ClientSession, q question) answerSeen {
	patience := goPatience
	if q.Patience > 0 {
		patience = time.Duration(q.Patience * float64(time.Second))
	}
	time.Sleep(time.Duration(q.Pause * float64(time.Second)))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	keyedContext, _ := keyed.WithKey(ctx, q.Key)
	result, err := session.CallTool(keyedContext, &mcp.CallToolParams{Name: q.Tool, Arguments: q.Arguments})
	var rpc *jsonrpc.Error
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded):
		return answerSeen{Kind: "timeout"}
	case errors.As(err, &rpc):
		a := answerSeen{Kind: "error", Text: rpc.Message, Code: int(rpc.Code)}
		_ = json.Unmarshal(rpc.Data, &a.Data) // absent in errors of the client's own
		return a
	default:
		return answerSeen{Kind: "exception", Text: err.Error()}
	}
	a := answerSeen{Kind: "result"}
	if result.IsError {
		a.Kind = "tool_error"
	}
	for _, part := range result.Content {
		if text, ok := part.(*mcp.TextContent); ok {
			a.Text += text.Text
		}
	}
	a.Data, _ = result.Meta["callonce.dev/refusal"].(map[string]any)
	a.Structured, _ = result.StructuredContent.(map[string]any)
	return a
}
