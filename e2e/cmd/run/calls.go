package main

import (
	"fmt"
	"io"
	"strings"
)

const tryPayments = `
callonce serves {URL}, in front of a payments server at {UPSTREAM}.
Any MCP client can connect to {URL}/mcp. Or paste these, in another terminal:

  # A charge with a key. Run it twice: the second answer is the first one again,
  # with the header Idempotency-Replayed: true, and nobody was charged twice.
  {CURL} -H 'Idempotency-Key: order-1' \
    -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"customer":"alice","amount_cents":1200}}}'

  # The same key for another amount: refused, with a JSON-RPC error that says why and what to do.
  {CURL} -H 'Idempotency-Key: order-1' \
    -d '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"charge","arguments":{"customer":"alice","amount_cents":9900}}}'

  # Without a key. Run it twice, and the customer pays twice.
  {CURL} \
    -d '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"charge","arguments":{"customer":"bob","amount_cents":1200}}}'

  # A client that gives up after a second: nobody knows whether the charge ran, a repeat is refused, and the page below lets you say what became of it.
  {CURL} -m 1 -H 'Idempotency-Key: order-2' \
    -d '{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"charge","arguments":{"customer":"carol","amount_cents":1200,"delay_ms":3000}}}'

  # How often the server really charged:
  curl -s {COUNT}

Watch it in a browser: {PAGE}
Ctrl-C stops everything, a second one at once. Requests follow.

`

const tryOther = `
callonce serves {URL}, in front of {UPSTREAM}.
Point an MCP client at {URL} with the path that the server has. A tools/call that
carries a key is guarded, as the configuration says (the demo's, unless another was named). With this server's own
tool and arguments, for instance; a server that keeps sessions wants an initialize first:

  {CURL} -H 'Idempotency-Key: order-1' \
    -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"TOOL","arguments":{}}}'

Watch it in a browser: {PAGE}
Ctrl-C stops everything, a second one at once. Requests follow.

`

// printCalls prints what to try; page is where it can be watched, count is the address of the payments server's
// count, or "" in front of another server. callers are the headers that say who calls.
func printCalls(out io.Writer, url, page, upstream, count string, callers []string) {
	text := tryPayments
	if count == "" {
		text = tryOther
	}
	curl := "curl -si " + url + "/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream'"
	for _, name := range callers {
		curl += " -H '" + name + ": me'"
	}
	fmt.Fprint(out, strings.NewReplacer("{URL}", url, "{PAGE}", page, "{UPSTREAM}", upstream, "{CURL}", curl, "{COUNT}", count).Replace(text))
}
