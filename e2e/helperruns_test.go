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
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	callonce "github.com/callonce/callonce/clients/go"
	"github.com/callonce/callonce/e2e/tools"
)

// orders are what a helper (clients/python, clients/typescript, clients/go) is told to
// do; clients/helper.py says more.
type orders struct {
	URL      string  `json:"url"`
	Store    string  `json:"store"`
	Patience float64 `json:"patience"` // seconds
	Calls    []order `json:"calls"`
}

type order struct {
	Intent    string         `json:"intent"`
	Tool      string         `json:"tool,omitempty"` // none: forget the intent
	Arguments map[string]any `json:"arguments,omitempty"`
}

// carriedOut is what a helper made of an order.
type carriedOut struct {
	Kind     string `json:"kind"` // result, tool_error, forgotten, the helper's error, exception
	Text     string `json:"text"`
	Replayed bool   `json:"replayed"`
	Charge   string `json:"charge"`
	Refusal  string `json:"refusal"`
}

var helpers = []struct {
	name string
	do   func(ctx context.Context, o orders) ([]carriedOut, error)
}{
	{"go", helpGo},
	{"python 1.x", func(ctx context.Context, o orders) ([]carriedOut, error) { return helpPython(ctx, tools.Python, o) }},
	{"python 2.x", func(ctx context.Context, o orders) ([]carriedOut, error) { return helpPython(ctx, tools.Python2, o) }},
	{"typescript 1.x", func(ctx context.Context, o orders) ([]carriedOut, error) { return helpTypeScript(ctx, "1", o) }},
	{"typescript 2.x", func(ctx context.Context, o orders) ([]carriedOut, error) { return helpTypeScript(ctx, "2", o) }},
}

func helpPython(ctx context.Context, python func() (string, error), o orders) ([]carriedOut, error) {
	binary, err := python()
	if err != nil {
		return nil, err
	}
	return helpScript(exec.CommandContext(ctx, binary, "clients/helper.py"), o)
}

// buildTypeScript compiles clients/typescript and returns its main file.
var buildTypeScript = sync.OnceValues(func() (string, error) {
	root, err := tools.Root()
	if err != nil {
		return "", err
	}
	tsc, err := tools.TypeScript()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(out, "typescript")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Node takes the nearest package.json for what says that these are modules.
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command(tsc[0], append(tsc[1:], "--project", filepath.Join(root, "clients", "typescript"), "--outDir", dir)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, text)
	}
	return filepath.Join(dir, "index.js"), nil
})

func helpTypeScript(ctx context.Context, generation string, o orders) ([]carriedOut, error) {
	node, err := tools.NodeTools()
	if err != nil {
		return nil, err
	}
	helper, err := buildTypeScript()
	if err != nil {
		return nil, err
	}
	return helpScript(exec.CommandContext(ctx, node.Binary, "clients/helper.mjs", helper, node.Modules, generation), o)
}

func helpScript(cmd *exec.Cmd, o orders) ([]carriedOut, error) {
	in, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var told strings.Builder
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(in)), &told
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd.Args[1], err, told.String())
	}
	var answer struct{ Calls []carriedOut }
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("%s: want one JSON object, got %q: %w", cmd.Args[1], text, err)
	}
	return answer.Calls, nil
}

func helpGo(ctx context.Context, o orders) (done []carriedOut, err error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "callonce-e2e", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: o.URL, HTTPClient: &http.Client{Transport: callonce.Transport{}},
	}, nil)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	caller := &callonce.Caller{Store: callonce.NewFileStore(o.Store)}
	for _, order := range o.Calls {
		done = append(done, orderGo(ctx, session, caller, o.Patience, order))
	}
	return done, ctx.Err()
}

func orderGo(ctx context.Context, session *mcp.ClientSession, caller *callonce.Caller, patience float64, o order) carriedOut {
	if o.Tool == "" {
		if err := caller.Forget(o.Intent); err != nil {
			return carriedOut{Kind: "exception", Text: err.Error()}
		}
		return carriedOut{Kind: "forgotten"}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(patience*float64(time.Second)))
	defer cancel()
	var result *mcp.CallToolResult
	outcome, err := caller.Do(ctx, o.Intent, func(ctx context.Context) (err error) {
		result, err = session.CallTool(ctx, &mcp.CallToolParams{Name: o.Tool, Arguments: o.Arguments})
		return err
	})
	if err != nil {
		c := carriedOut{Kind: "exception", Text: err.Error()}
		for kind, is := range map[string]error{
			"ReconcileFirst": callonce.ErrReconcileFirst, "KeyConflict": callonce.ErrKeyConflict,
			"NotSettled": callonce.ErrNotSettled, "Refused": callonce.ErrRefused,
		} {
			if errors.Is(err, is) {
				c.Kind = kind
			}
		}
		if r, found := errors.AsType[*callonce.Refusal](err); found {
			c.Refusal = r.Type
		}
		return c
	}
	c := carriedOut{Kind: "result", Replayed: outcome.Replayed}
	if result.IsError {
		c.Kind = "tool_error"
	}
	structured, _ := result.StructuredContent.(map[string]any)
	c.Charge, _ = structured["charge_id"].(string)
	return c
}
