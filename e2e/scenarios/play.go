// Package scenarios is what the demo shows and the end-to-end tests check: official
// MCP clients call a payments server through the filter, and the book at the server
// tells how often it was really charged. It must not know which proxy is between them.
package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	keyed "github.com/callonce/callonce/clients/go"
	"github.com/callonce/callonce/e2e/payments"
)

// Player plays scenarios against one proxy and writes down what happens.
type Player struct {
	// URL is the proxy's root, "http://host:port".
	URL string
	// SEP3182 is the root of another proxy before the same server, under the preset sep3182
	// (testdata/sep3182.json).
	SEP3182 string
	// Book is the book of the payments server behind the proxy.
	Book *payments.Book
	// Out takes the transcript.
	Out io.Writer
	// Prefix sets the keys and customers of one play apart from those of another
	// against the same server.
	Prefix string

	session *mcp.ClientSession
	wrong   []string // what was not as expected
}

// Play plays all scenarios, in order. The error names everything that was not as
// expected; the transcript shows it in its place too.
func (p *Player) Play(ctx context.Context) error {
	p.wrong = nil
	if err := p.connect(ctx); err != nil {
		return err
	}
	defer p.session.Close()
	for i, s := range all {
		fmt.Fprintf(p.Out, "\n%d. %s\n", i+1, s.title)
		s.play(ctx, p, p.Prefix+s.name)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return p.verdict()
}

// connect gives the player an MCP client.
func (p *Player) connect(ctx context.Context) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "callonce-demo", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:   p.URL + "/mcp",
		HTTPClient: &http.Client{Transport: keyed.Transport{}},
	}, nil)
	if err != nil {
		return fmt.Errorf("connect an MCP client to %s: %w", p.URL, err)
	}
	p.session = session
	return nil
}

// verdict is an error that names everything that was not as expected.
func (p *Player) verdict() error {
	if len(p.wrong) > 0 {
		return errors.New("not as expected:\n  " + strings.Join(p.wrong, "\n  "))
	}
	return nil
}

// charge is one charge call: what is asked, and with which key.
type charge struct {
	customer string
	cents    int
	delay    time.Duration // how long the payment takes
	key      string        // "" sends none
	timeout  time.Duration // how long the client waits; 0 waits for ever
}

// reply is what the client got.
type reply struct {
	chargeID string // of a result
	refusal  string // data.type of an error
	code     int64  // of an error
	message  string // of an error
	gaveUp   bool   // the client's timeout
	http     keyed.Answer
	err      error // anything else
}

// String tells the reply as the transcript does.
func (r reply) String() string {
	switch {
	case r.gaveUp:
		return "the client gave up waiting"
	case r.err != nil:
		return fmt.Sprintf("failed: %v", r.err)
	case r.refusal != "":
		return fmt.Sprintf("refused with HTTP %d, %d %s:\n      %q", r.http.Status, r.code, r.refusal, r.message)
	case r.http.Replayed:
		return fmt.Sprintf("%s, %s: true", r.chargeID, keyed.ReplayedHeader)
	}
	return r.chargeID
}

func (p *Player) call(ctx context.Context, c charge) reply {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	ctx, sent := keyed.WithKey(ctx, c.key)
	args := map[string]any{"customer": c.customer, "amount_cents": c.cents}
	if c.delay > 0 {
		args["delay_ms"] = c.delay.Milliseconds()
	}
	result, err := p.session.CallTool(ctx, &mcp.CallToolParams{Name: "charge", Arguments: args})
	var r reply
	r.http, _ = sent.Answer()
	var refused *jsonrpc.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		r.gaveUp = true
	case errors.As(err, &refused):
		r.code, r.message, r.refusal = refused.Code, refused.Message, refusalType(refused.Data)
	case err != nil:
		r.err = err
	case result.IsError:
		r.err = fmt.Errorf("the tool's own error: %s", text(result))
	default:
		r.chargeID, r.err = chargeID(result)
	}
	return r
}

// listed asks the server's own tool how often a customer was charged.
func (p *Player) listed(ctx context.Context, customer string) (int, error) {
	result, err := p.session.CallTool(ctx, &mcp.CallToolParams{Name: "list_charges", Arguments: map[string]any{}})
	if err != nil {
		return 0, err
	}
	raw, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return 0, err
	}
	var list struct{ Charges []payments.Charge }
	if err := json.Unmarshal(raw, &list); err != nil {
		return 0, fmt.Errorf("list_charges: want an object with charges, got %s: %w", raw, err)
	}
	n := 0
	for _, c := range list.Charges {
		if c.Customer == customer {
			n++
		}
	}
	return n, nil
}

func refusalType(data json.RawMessage) string {
	var d struct{ Type string }
	// An error without the filter's data has no type; that shows in the transcript.
	_ = json.Unmarshal(data, &d)
	if d.Type == "" {
		return "(no data.type)"
	}
	return d.Type
}

func chargeID(result *mcp.CallToolResult) (string, error) {
	structured, _ := result.StructuredContent.(map[string]any)
	id, _ := structured["charge_id"].(string)
	if id == "" {
		return "", fmt.Errorf("want a result with structuredContent.charge_id, got %q and %v", text(result), result.StructuredContent)
	}
	return id, nil
}

func text(result *mcp.CallToolResult) string {
	var parts []string
	for _, c := range result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			parts = append(parts, t.Text)
		}
	}
	return strings.Join(parts, " ")
}

// tell writes one step and its outcome.
func (p *Player) tell(step string, outcome any) {
	fmt.Fprintf(p.Out, "   %-34s -> %v\n", step, outcome)
}

// want notes when something is not as expected.
func (p *Player) want(scenario, what string, ok bool, got any) {
	if ok {
		return
	}
	fmt.Fprintf(p.Out, "   NOT AS EXPECTED: want %s\n", what)
	p.wrong = append(p.wrong, fmt.Sprintf("%s: want %s, got %v", scenario, what, got))
}

// charges tells and checks how often a customer was charged.
func (p *Player) charges(customer string, want int) {
	got := p.Book.CountFor(customer)
	fmt.Fprintf(p.Out, "   charges at the server: %d\n", got)
	p.want(customer, fmt.Sprintf("%d charges at the server", want), got == want, got)
}
