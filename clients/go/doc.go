// Package callonce makes the tool calls of any Go MCP client safe to repeat, together
// with the filter callonce at the server's side: it mints a key for each intent, keeps
// it over restarts, repeats under the same key as told, and stops where somebody must
// look first.
//
// It stands between a client and net/http, knows no client, and has no dependencies:
//
//	caller := callonce.Caller{Store: callonce.NewFileStore("keys.json")}
//	transport := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: callonce.Transport{}}}
//	// … connect, then:
//	outcome, err := caller.Do(ctx, "order 17: charge", func(ctx context.Context) (err error) {
//		result, err = session.CallTool(ctx, params)
//		return err
//	})
//
// [WithKey] sends a key and does nothing else.
package callonce
