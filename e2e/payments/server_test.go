package payments_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callonce/callonce/e2e/payments"
)

func start(t *testing.T, opts payments.Options) *payments.Server {
	t.Helper()
	s, err := payments.Start("127.0.0.1:0", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func connect(t *testing.T, url string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func call(t *testing.T, session *mcp.ClientSession, tool string, args any) *mcp.CallToolResult {
	t.Helper()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	return res
}

func structured(t *testing.T, res *mcp.CallToolResult) map[string]any {
	t.Helper()
	m, ok := res.StructuredContent.(map[string]any)
	if !ok {
		t.Fatalf("structuredContent: want an object, got %T (%v)", res.StructuredContent, res.Content)
	}
	return m
}

func TestTools(t *testing.T) {
	for name, opts := range map[string]payments.Options{
		"sse": {}, "json": {JSON: true}, "sse stateless": {Stateless: true}, "json stateless": {JSON: true, Stateless: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, opts)
			session := connect(t, s.URL())
			args := map[string]any{"customer": "alice", "amount_cents": 1200, "note": "tea"}
			first := structured(t, call(t, session, "charge", args))
			second := structured(t, call(t, session, "charge", args))
			if first["charge_id"] == second["charge_id"] || s.Book.Count() != 2 {
				t.Errorf("two calls: want two charges of two ids, got %v and %v, %d in the book", first, second, s.Book.Count())
			}
			id := map[string]any{"charge_id": first["charge_id"]}
			if got := structured(t, call(t, session, "refund", id)); got["refunded"] != true {
				t.Errorf("refund: want refunded true, got %v", got)
			}
			if got := structured(t, call(t, session, "get_charge", id)); got["refunded"] != true || got["customer"] != "alice" {
				t.Errorf("get_charge: want alice's, refunded, got %v", got)
			}
			if got := structured(t, call(t, session, "list_charges", map[string]any{})); got["count"] != 2.0 {
				t.Errorf("list_charges: want 2, got %v", got)
			}
			if res := call(t, session, "refund", id); !res.IsError {
				t.Errorf("second refund: want an error result, got %v", res.StructuredContent)
			}
			bad := map[string]any{"customer": "", "amount_cents": 1}
			if res := call(t, session, "charge", bad); !res.IsError || s.Book.Count() != 2 {
				t.Errorf("no customer: want an error result and 2 charges, got isError %t and %d", res.IsError, s.Book.Count())
			}
		})
	}
}

// A payment that was asked for is made, also when nobody waits for the answer.
func TestChargeEndsWithoutItsClient(t *testing.T) {
	for name, opts := range map[string]payments.Options{"sse": {}, "stateless": {Stateless: true}} {
		t.Run(name, func(t *testing.T) {
			s := start(t, opts)
			session := connect(t, s.URL())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			left := make(chan error, 1)
			go func() {
				args := map[string]any{"customer": "bob", "amount_cents": 5, "delay_ms": 300}
				_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "charge", Arguments: args})
				left <- err
			}()
			await(t, "the charge to start", func() bool { return s.Book.Running() == 1 })
			cancel()
			if err := <-left; err == nil {
				t.Error("a call that was given up: want an error, got its result")
			}
			await(t, "the charge to end", func() bool { return s.Book.Running() == 0 })
			if s.Book.CountFor("bob") != 1 {
				t.Errorf("want 1 charge, got %v", s.Book.Charges())
			}
		})
	}
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 1000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("waited 10 s for %s", what)
}

func TestCountAndReset(t *testing.T) {
	s := start(t, payments.Options{})
	if _, err := s.Book.Add("eve", 1, ""); err != nil {
		t.Fatal(err)
	}
	if got := charges(t, s.URL()); got.Count != 1 || len(got.Charges) != 1 || got.Charges[0].ID != "ch_1" {
		t.Errorf("GET /charges: want ch_1 alone, got %+v", got)
	}
	resp, err := http.Post(s.URL()+"/reset", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("POST /reset: want 204, got %d", resp.StatusCode)
	}
	if got := charges(t, s.URL()); got.Count != 0 || got.Charges == nil {
		t.Errorf("after the reset: want 0 and an empty list, got %+v", got)
	}
	if c, _ := s.Book.Add("eve", 1, ""); c.ID != "ch_2" {
		t.Errorf("after the reset: want the next id ch_2, got %s", c.ID)
	}
}

func charges(t *testing.T, url string) (got struct {
	Count   int
	Charges []payments.Charge
}) {
	t.Helper()
	resp, err := http.Get(url + "/charges")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	return got
}
