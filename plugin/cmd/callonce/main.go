// Command callonce serves the filter without Envoy, as a reverse proxy in front of an MCP server; judges a configuration; says whether a guard
// stands in front of a server; and says which build it is.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/callonce/callonce/doctor"
	"github.com/callonce/callonce/hostsim/serve"
	"github.com/callonce/callonce/plugin/config"
	"github.com/callonce/callonce/plugin/internal/version"
)

func main() { command().Main() }

func command() *serve.Command {
	return &serve.Command{
		Name:   "callonce",
		About:  "callonce runs each tools/call of MCP at most once for its key. Without Envoy:",
		Plugin: besideThis,
		LogFields: []serve.LogField{
			{Name: "outcome", State: "wasm.callonce.outcome"},
			{Name: "key", State: "wasm.callonce.key_hash"},
			{Name: "tool", State: "wasm.callonce.tool", Optional: true},
			{Name: "refusal", State: "wasm.callonce.refusal", Optional: true},
			{Name: "mode", State: "wasm.callonce.mode", Optional: true},
		},
		PageFields: []serve.LogField{
			{Name: "source", State: "wasm.callonce.duplicate_source"},
			{Name: "settled", State: "wasm.callonce.settled"},
			{Name: "settled by", State: "wasm.callonce.settled_by"},
			{Name: "attempt", State: "wasm.callonce.attempt"},
		},
		Tones: map[string]string{
			"first": "good", "completed": "good", "replay": "good", "released": "good",
			"outcome_unknown": "bad", "unknown_outcome": "bad", "unavailable": "bad", "rejected": "bad",
			"in_flight": "warn", "conflict": "warn", "capacity": "warn", "not_replayable": "warn",
		},
		Example:  "replay, a tool, a key …",
		Page:     keysPage,
		Matchers: []serve.Matcher{{Name: "tool", About: "the name in a tools/call", Read: toolOf}},
		// The filter's own reader, so that what is told here is word for word what a proxy's log will say.
		Check:   config.Check,
		Version: version.String,
		Commands: []serve.Subcommand{{
			Name:     "doctor",
			Synopsis: "callonce doctor --url http://HOST/mcp [--admin URL] [--header 'NAME: VALUE']",
			About:    "say whether a guard stands in front of a server, and what leads around it, by calls that run nothing",
			Run: func(_ context.Context, args []string, stdout, stderr io.Writer) error {
				return doctor.Run(args, stdout, stderr)
			},
		}, {
			Name:     "keys",
			Synopsis: keysSynopsis,
			About:    "list the keys of a policy, and resolve those whose outcome nobody knows",
			Run: func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
				return runKeys(ctx, args, os.Stdin, stdout, stderr)
			},
		}},
	}
}

// besideThis is the compiled filter that "make build" leaves beside this command.
func besideThis() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	path := filepath.Join(filepath.Dir(self), "callonce.wasm")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("want the compiled filter, which is looked for beside this command where none is named: %w", err)
	}
	return path, nil
}

// toolOf is the name in a tools/call, "" in anything else.
func toolOf(body []byte) string {
	var m struct {
		Method string
		Params struct{ Name string }
	}
	if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" {
		return ""
	}
	return m.Params.Name
}
