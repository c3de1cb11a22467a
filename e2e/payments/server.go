package payments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// MaxDelay is the longest that a charge may be asked to take.
const MaxDelay = 10 * time.Minute

// Options say how the server answers.
type Options struct {
	// JSON makes it answer tools/call with application/json instead of the usual
	// text/event-stream.
	JSON bool
	// Stateless makes it serve without sessions: every POST stands alone, and a
	// tools/call needs no initialize before it.
	Stateless bool
}

type chargeInput struct {
	Customer    string `json:"customer" jsonschema:"who is charged"`
	AmountCents int64  `json:"amount_cents" jsonschema:"how much, in cents; at least 1"`
	Note        string `json:"note,omitempty" jsonschema:"free text kept with the charge"`
	DelayMS     int64  `json:"delay_ms,omitempty" jsonschema:"how long the payment takes, in milliseconds (0 to 600000)"`
}

type idInput struct {
	ChargeID string `json:"charge_id" jsonschema:"id of a charge, as the charge tool returned it"`
}

type listOutput struct {
	Count   int      `json:"count"`
	Charges []Charge `json:"charges"`
}

// NewHandler serves the tools of a payments server over streamable HTTP at every
// path but two: GET /charges answers {"count","running","charges"} as JSON, and
// POST /reset empties the book.
func NewHandler(book *Book, opts Options) http.Handler {
	server := newServer(book)
	mux := http.NewServeMux()
	mux.Handle("/", mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{JSONResponse: opts.JSON, Stateless: opts.Stateless},
	))
	mux.HandleFunc("GET /charges", func(w http.ResponseWriter, _ *http.Request) {
		charges := book.Charges()
		w.Header().Set("Content-Type", "application/json")
		// A failed write means that the reader has left; nobody is there to be told.
		_ = json.NewEncoder(w).Encode(struct {
			Count   int      `json:"count"`
			Running int      `json:"running"`
			Charges []Charge `json:"charges"`
		}{len(charges), book.Running(), charges})
	})
	mux.HandleFunc("POST /reset", func(w http.ResponseWriter, _ *http.Request) {
		book.Reset()
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func newServer(book *Book) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "payments", Title: "Payments of the callonce demo", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "charge", Description: "Charges a customer. Every run takes the money again."},
		func(_ context.Context, _ *mcp.CallToolRequest, in chargeInput) (*mcp.CallToolResult, Charge, error) {
			return charge(book, in)
		})
	mcp.AddTool(server, &mcp.Tool{Name: "refund", Description: "Gives the amount of one charge back."},
		func(_ context.Context, _ *mcp.CallToolRequest, in idInput) (*mcp.CallToolResult, Charge, error) {
			c, err := book.Refund(in.ChargeID)
			return text("refunded %s: %d cents to %s", c.ID, c.AmountCents, c.Customer), c, err
		})
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	mcp.AddTool(server, &mcp.Tool{Name: "get_charge", Description: "Shows one charge.", Annotations: readOnly},
		func(_ context.Context, _ *mcp.CallToolRequest, in idInput) (*mcp.CallToolResult, Charge, error) {
			c, err := book.Charge(in.ChargeID)
			return text("%s: %d cents from %s, refunded: %t", c.ID, c.AmountCents, c.Customer, c.Refunded), c, err
		})
	mcp.AddTool(server, &mcp.Tool{Name: "list_charges", Description: "Lists all charges, oldest first.", Annotations: readOnly},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, listOutput, error) {
			all := book.Charges()
			return text("%d charges", len(all)), listOutput{len(all), all}, nil
		})
	return server
}

// charge takes no context: a payment that was sent runs to its end whether or not
// the one who asked is still there to hear of it.
func charge(book *Book, in chargeInput) (*mcp.CallToolResult, Charge, error) {
	delay := time.Duration(in.DelayMS) * time.Millisecond
	if in.DelayMS < 0 || in.DelayMS > MaxDelay.Milliseconds() {
		return nil, Charge{}, fmt.Errorf("delay_ms: want 0 to %d, got %d", MaxDelay.Milliseconds(), in.DelayMS)
	}
	if err := check(in.Customer, in.AmountCents); err != nil {
		return nil, Charge{}, err
	}
	defer book.begin()()
	time.Sleep(delay)
	c, err := book.Add(in.Customer, in.AmountCents, in.Note)
	return text("charged %s %d cents: %s", c.Customer, c.AmountCents, c.ID), c, err
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// Server is a payments server that listens.
type Server struct {
	// Book holds the charges made.
	Book *Book

	http *http.Server
	addr string
	done chan error
}

// Start serves a new book on addr, a host:port whose port may be 0. It fails when
// it cannot listen there.
func Start(addr string, opts Options) (*Server, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("payments server: want a free host:port to listen on, got %q: %w", addr, err)
	}
	s := &Server{Book: new(Book), addr: listener.Addr().String(), done: make(chan error, 1)}
	s.http = &http.Server{Handler: NewHandler(s.Book, opts), ReadHeaderTimeout: 10 * time.Second}
	go func() { s.done <- s.http.Serve(listener) }()
	return s, nil
}

// URL is the server's root, "http://host:port" without a slash at its end.
func (s *Server) URL() string { return "http://" + s.addr }

// Addr is the host:port that it listens on.
func (s *Server) Addr() string { return s.addr }

// Wait returns when the server no longer serves: nil after [Server.Close].
func (s *Server) Wait() error {
	if err := <-s.done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close cuts all connections and stops the server. Charges that run still end.
func (s *Server) Close() { s.http.Close() }
