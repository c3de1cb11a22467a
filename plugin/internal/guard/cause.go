package guard

import (
	"encoding/binary"

	"github.com/callonce/callonce/plugin/internal/ledger"
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

// storedCauses are the causes as the ledger keeps them. Their numbers are stored: never renumber them.
var storedCauses = [...]string{
	ledger.HolderLost: byHolderLost,
	2:                 byResult,
	3:                 byTask,
	4:                 byError,
	5:                 byErrorCode,
	6:                 byToolError,
	7:                 byInputRequired,
	8:                 byNotDone,
	9:                 byCancelled,
	10:                byNoResponse,
	11:                byMalformed,
	12:                byOverCap,
	13:                byContentEncoding,
	14:                byContentType,
	15:                byReleasedStatus,
	16:                byRedirect,
	17:                byStatus3xx,
	18:                byStatus4xx,
	19:                byStatus5xx,
	20:                byStatusOther,
	21:                byNothingSent,
	22:                byProxyReply,
	23:                byTimeout,
	24:                byReset,
	25:                byClientGone,
	26:                byCutShort,
	27:                byProxyFault,
	28:                byFault,
}

// causeNumber is what the ledger keeps of a cause, 0 for none.
func causeNumber(cause string) ledger.Cause {
	for i, c := range storedCauses {
		if c == cause {
			return ledger.Cause(i)
		}
	}
	return 0
}

// causeWord is a cause that the ledger has kept, "" where it is not known.
func causeWord(c ledger.Cause) string {
	if int(c) < len(storedCauses) {
		return storedCauses[c]
	}
	return ""
}
