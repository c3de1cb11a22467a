package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	keyed "github.com/callonce/callonce/clients/go"
	"github.com/callonce/callonce/e2e/tools"
)

// seen is what a client saw of two equal charge calls under one key.
type seen struct {
	Tools    []string
	Charges  []string
	Replayed []bool
}

// Official clients work through the filter as they are; all they need is a header.
func TestOfficialClients(t *testing.T) {
	clients := []struct {
		name string
		call func(ctx context.Context, url, key, customer string) (seen, error)
	}{
		{"go", goClient}, {"python", pythonClient}, {"typescript", typescriptClient},
	}
	for _, proxy := range proxies {
		for _, answer := range answers {
			t.Run(proxy.name+"/"+answer.name, func(t *testing.T) {
				server := startPayments(t, answer.opts)
				url := proxy.start(t, server.URL()) + "/mcp"
				for _, client := range clients {
					t.Run(client.name, func(t *testing.T) {
						got, err := client.call(t.Context(), url, "key-"+client.name, client.name)
						if err != nil {
							t.Fatal(err)
						}
						if want := []string{"charge", "get_charge", "list_charges", "refund"}; !slices.Equal(slices.Sorted(slices.Values(got.Tools)), want) {
							t.Errorf("tools/list: want %v, got %v", want, got.Tools)
						}
						if len(got.Charges) != 2 || got.Charges[0] == "" || got.Charges[0] != got.Charges[1] {
							t.Errorf("want the same charge twice, got %v", got.Charges)
						}
						if !slices.Equal(got.Replayed, []bool{false, true}) {
							t.Errorf("want a first answer, then a replay, got replayed %v", got.Replayed)
						}
						if n := server.Book.CountFor(client.name); n != 1 {
							t.Errorf("want 1 charge at the server, got %d", n)
						}
					})
				}
			})
		}
	}
}

func goClient(ctx context.Context, url, key, customer string) (seen, error) {
	var s seen
	client := mcp.NewClient(&mcp.Implementation{Name: "callonce-e2e", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: keyed.Transport{}},
	}, nil)
	if err != nil {
		return s, err
	}
	defer session.Close()
	listed, err := session.ListTools(ctx, nil)
	if err != nil {
		return s, err
	}
	for _, tool := range listed.Tools {
		s.Tools = append(s.Tools, tool.Name)
	}
	for range 2 {
		ctx, call := keyed.WithKey(ctx, key)
		result, err := session.CallTool(ctx, &mcp.CallToolParams{
			Name: "charge", Arguments: map[string]any{"customer": customer, "amount_cents": 1200},
		})
		if err != nil {
			return s, err
		}
		structured, _ := result.StructuredContent.(map[string]any)
		id, _ := structured["charge_id"].(string)
		answer, _ := call.Answer()
		s.Charges, s.Replayed = append(s.Charges, id), append(s.Replayed, answer.Replayed)
	}
	return s, nil
}

func pythonClient(ctx context.Context, url, key, customer string) (seen, error) {
	python, err := tools.Python()
	if err != nil {
		return seen{}, err
	}
	return script(exec.CommandContext(ctx, python, "clients/client.py", url, key, customer))
}

func typescriptClient(ctx context.Context, url, key, customer string) (seen, error) {
	node, err := tools.NodeTools()
	if err != nil {
		return seen{}, err
	}
	return script(exec.CommandContext(ctx, node.Binary, "clients/client.mjs", node.Modules, url, key, customer))
}

// script runs a client that prints what it saw.
func script(cmd *exec.Cmd) (seen, error) {
	var s seen
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return s, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return s, fmt.Errorf("%s: want one JSON object, got %q: %w", cmd.Args[1], out, err)
	}
	return s, nil
}
