package guard

import (
	"encoding/binary"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

// Why a call settled as it did, for access logs and traces, beside how it settled. The words
// are these, whatever was sent; envoy/README.md says what each means.
const (
	byResult          = "result"
	byTask            = "task"
	byError           = "error"      // a JSON-RPC error that is the call's outcome
	byErrorCode       = "error_code" // one that says, by its code, that nothing ran
	byToolError       = "tool_error"
	byInputRequired   = "input_required"
	byNotDone         = "not_done"
	byCancelled       = "cancelled"
	byNoResponse      = "no_response"
	byMalformed       = "malformed"
	byOverCap         = "over_cap"
	byContentEncoding = "content_encoding"
	byContentType     = "content_type"
	byReleasedStatus  = "released_status"
	byRedirect        = "redirect"
	byStatus3xx       = "status_3xx"
	byStatus4xx       = "status_4xx"
	byStatus5xx       = "status_5xx"
	byStatusOther     = "status_other"
	byNothingSent     = "nothing_sent"
	byProxyReply      = "proxy_reply"
	byTimeout         = "timeout"
	byReset           = "reset"
	byClientGone      = "client_gone"
	byCutShort        = "cut_short"
	byHolderLost      = "holder_lost"
	byProxyFault      = "proxy_fault" // the proxy would not do what was asked of it
	byFault           = "fault"       // of our own
)

// answerCauses are the causes of what a message makes of its key.
var answerCauses = [...]string{
	mcp.Result:        byResult,
	mcp.Task:          byTask,
	mcp.Failed:        byError,
	mcp.ToolError:     byToolError,
	mcp.InputRequired: byInputRequired,
	mcp.Cancelled:     byCancelled,
	mcp.NotOurs:       byNoResponse,
	mcp.Unnamed:       byNoResponse,
	mcp.Malformed:     byMalformed,
}

// lossFlags are what response flags say of a stream that ended before its answer was whole.
// Of several the first here counts: a timeout resets the server's stream too.
var lossFlags = [...]struct {
	flags uint64
	cause string
}{
	{flagRequestTimeout | flagStreamIdleTimeout | flagMaxDuration | flagDurationTimeout, byTimeout},
	{flagClientTermination | flagClientReset, byClientGone},
	{flagLocalReset | flagRemoteReset | flagConnectFailure | flagTermination | flagServerProtocolError, byReset},
}

// lossBy is why a stream ended without a whole answer, by the proxy's 8-byte number of flags;
// other where that does not say.
func lossBy(flags []byte, other string) string {
	if len(flags) != 8 {
		return other
	}
	set := binary.LittleEndian.Uint64(flags)
	for _, l := range lossFlags {
		if set&l.flags != 0 {
			return l.cause
		}
	}
	return other
}
