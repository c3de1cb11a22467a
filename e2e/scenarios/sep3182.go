package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lostAnswers is the story that SEP-3182 begins with: the answer to a charge is lost on
// its way, after the server has charged. The client can send nothing but arguments.
func lostAnswers(ctx context.Context, p *Player, name string) {
	network, at, err := startLossy(p.SEP3182)
	if err != nil {
		p.want(name, "a network", false, err)
		return
	}
	defer network.close()
	play := func(customer, step string, cents int, key string, lose bool) reply {
		if lose {
			network.lose.Store(1)
		}
		r := chargeByArgument(ctx, at, customer, cents, key)
		network.lose.Store(0)
		p.tell(step, r)
		return r
	}

	keyless := name + "-keyless"
	before := network.lost.Load()
	first := play(keyless, "charge 12.00, the answer is lost", 1200, "", true)
	p.want(name, "a lost answer", first.err != nil && network.lost.Load() == before+1, first)
	again := play(keyless, "the same again", 1200, "", false)
	p.want(name, "another charge", again.chargeID != "", again)
	p.charges(keyless, 2)

	first = play(name, "with idempotencyKey, lost", 1200, name, true)
	p.want(name, "a lost answer", first.err != nil && network.lost.Load() == before+2, first)
	again = play(name, "the same again", 1200, name, false)
	p.want(name, "the charge that was made", again.chargeID != "", again)
	third := play(name, "and again", 1200, name, false)
	p.want(name, "the same charge", third.chargeID == again.chargeID, third)
	other := play(name, "the key, 99.00 instead", 9900, name, false)
	p.want(name, "a refusal idempotency_key_conflict", other.refusal == "idempotency_key_conflict" && other.code == -31409, other)
	p.charges(name, 1)
}

// chargeByArgument charges with a client of its own, since one that lost an answer may
// take its connection for broken. The key, "" for none, is an argument like the others.
func chargeByArgument(ctx context.Context, url, customer string, cents int, key string) (r reply) {
	client := mcp.NewClient(&mcp.Implementation{Name: "callonce-demo", Version: "1.0.0"}, nil)
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: plain, MaxRetries: -1}, nil)
	if err != nil {
		r.err = fmt.Errorf("connect an MCP client: %w", err)
		return r
	}
	defer session.Close()
	args := map[string]any{"customer": customer, "amount_cents": cents}
	if key != "" {
		args["idempotencyKey"] = key
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "charge", Arguments: args})
	var refused *jsonrpc.Error
	switch {
	case errors.As(err, &refused) && refused.Data != nil:
		r.code, r.message, r.refusal = refused.Code, refused.Message, refusalType(refused.Data)
		r.http.Status = http.StatusOK
	case err != nil:
		r.err = err
	case result.IsError:
		r.err = fmt.Errorf("the tool's own error: %s", text(result))
	default:
		r.chargeID, r.err = chargeID(result)
	}
	return r
}
