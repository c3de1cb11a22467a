package mcp

import "bytes"

const elsewhere = `{"jsonrpc":"2.0","id":null,"result":{"resultType":"complete","content":[{"type":"text","text":"` +
	`This call was sent before, and whoever runs the server has found that it was completed. Its answer was not kept, so this is not it. ` +
	`Do not call again for the same intent; ask for the state of what was to be done, if you need it."}],` +
	`"_meta":{"callonce.dev/completed_elsewhere":true}}}`

// CompletedElsewhere is the answer to a call of which an operator knows that it has run, and where the token of its id stands in it. It
// is no error: the tool has done what was asked. It has no structuredContent, which clients check against the tool's own schema.
func CompletedElsewhere() (message []byte, idStart, idEnd int) {
	at := bytes.Index([]byte(elsewhere), []byte("null"))
	return []byte(elsewhere), at, at + len("null")
}
