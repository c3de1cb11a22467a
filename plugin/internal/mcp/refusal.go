package mcp

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/callonce/callonce/canonical"
)

// Refusal is one kind of refusal: its name, its numbers, and what a model is told.
// Source: section 4 of the contract.
type Refusal struct {
	Type       string
	Status     int
	Code       int
	MayHaveRun string // of this key's intent, or of this request where no key was looked up: no, unknown, running, yes
	Retry      string
	RetryAfter int    // seconds for Retry-After and data.retry_after_ms, 0 = none; of Capacity the least
	Also       string // another specification's name for the same thing
	Message    string
	Advice     string // follows the message; %s stands for the tool that tells the state, if there is one
	After      string // follows that, a sentence
	Keyless    string // the message to a caller that sent no key, where it differs
	StatusPath string // where its caller may ask how the key stands, "" = nowhere
}

// The refusals. A new refusal is one line here.
var (
	Unsupported = Refusal{Type: "idempotency_unsupported_request", Status: 400, Code: -31400, MayHaveRun: "no", Retry: "after_fix",
		Message: "This request was not run, because it cannot be guarded against running twice"}
	TooLarge   = withStatus(Unsupported, 413)
	KeyInvalid = Refusal{Type: "idempotency_key_invalid", Status: 400, Code: -31401, MayHaveRun: "no", Retry: "after_fix",
		Message: "This call was not run: its idempotency key is not valid. Send one key of 1 to 255 characters (visible ASCII in a header), the same in every place that carries it."}
	KeyRequired = Refusal{Type: "idempotency_key_required", Status: 400, Code: -31402, MayHaveRun: "no", Retry: "after_fix",
		Message: "This call was not run: the tool takes calls with an idempotency key only. Make up a key for this intent, send it with the call, and send the same key again if you repeat the call."}
	IdentityRequired = Refusal{Type: "idempotency_requires_verified_identity", Status: 400, Code: -31403, MayHaveRun: "no", Retry: "after_fix",
		Message: "This call was not run: it is to be guarded against running twice, but the proxy knows no verified identity to remember it under."}
	Conflict = Refusal{Type: "idempotency_key_conflict", Status: 409, Code: -31409, MayHaveRun: "unknown", Retry: "new_key_if_new_intent",
		Message: "This call was not run: its idempotency key was already used for another call. If you mean a new call, use a new key. If you mean to repeat the first call, send it exactly as it was."}
	InFlight = Refusal{Type: "idempotency_in_flight", Status: 409, Code: -31410, MayHaveRun: "running", Retry: "same_key_later", RetryAfter: 1,
		Also:    "idempotency_key_in_progress",
		Message: "This call is still running. Do not start it again under another key", Advice: "call %s to see its state",
		After:   " The same request with the same key will return the result once it is there.",
		Keyless: "This call is still running: it was sent before, with the same arguments. Do not start it again with others"}
	OutcomeUnknown = Refusal{Type: "idempotency_outcome_unknown", Status: 409, Code: -31411, MayHaveRun: "unknown", Retry: "reconcile_first",
		Message: "This call was sent before, and its outcome is not known: it may have run. It was not run again. Find out what happened before you use a new key", Advice: "call %s to see its state",
		Keyless: "This call was sent before, with the same arguments, and its outcome is not known: it may have run. It was not run again. Find out what happened; only if it must run again, send it with an idempotency key of its own"}
	NotReplayable = Refusal{Type: "idempotency_response_not_replayable", Status: 409, Code: -31412, MayHaveRun: "yes", Retry: "reconcile_first",
		Message: "This call was sent before and answered, and its answer was not kept: take it that it has run. It was not run again. Do not repeat it under another key", Advice: "call %s to see its result",
		Keyless: "This call was sent before, with the same arguments, and answered, and its answer was not kept: take it that it has run. It was not run again. Do not repeat it with others"}
	Capacity = Refusal{Type: "idempotency_capacity", Status: 429, Code: -31429, MayHaveRun: "unknown", Retry: "same_key_later", RetryAfter: 1,
		Message: "This call was not run now: the proxy has no room to remember another call. Send the same request with the same key later.",
		Keyless: "This call was not run now: the proxy has no room to remember another call. Send the same request later."}
	// NeverBuffered is Unavailable where waiting does not help: the key would have to go on in a
	// header, and the proxy has let the headers go.
	NeverBuffered = Refusal{Type: "idempotency_unavailable", Status: 503, Code: -31503, MayHaveRun: "unknown", Retry: "never",
		Message: "This call was not run now: its key must go on in a header, and this proxy cannot hold headers while it reads the call."}
	Unavailable = Refusal{Type: "idempotency_unavailable", Status: 503, Code: -31503, MayHaveRun: "unknown", Retry: "same_key_later", RetryAfter: 1,
		Message: "This call was not run now: the proxy cannot tell whether it ran before. Send the same request with the same key later.",
		Keyless: "This call was not run now: the proxy cannot tell whether it ran before. Send the same request later."}
	// Misrouted is Unavailable where waiting does not help either: the proxy's configuration
	// must be mended.
	Misrouted = Refusal{Type: "idempotency_unavailable", Status: 503, Code: -31503, MayHaveRun: "unknown", Retry: "never",
		Message: "This call was not run: the proxy is told to guard it by a policy that does not exist. Repeating it does not help; whoever runs the proxy must mend its configuration."}
)

// Lost is OutcomeUnknown for the caller whose own call it was.
var Lost = OutcomeUnknown.saying("This call was sent, and no answer came: it may have run. Do not start it again. Find out what happened before you use a new key",
	"This call was sent, and no answer came: it may have run. Do not start it again. Find out what happened; only if it must run again, send it with an idempotency key of its own")

// saying is the same refusal in other words: for callers who sent a key, and for those who did not.
func (r Refusal) saying(message, keyless string) Refusal {
	r.Message, r.Keyless = message, keyless
	return r
}

// Dialect is whose names a refusal uses for the same thing.
type Dialect uint8

const (
	// Own names only, and the other specifications' in data.also.
	Own Dialect = iota
	// SEP3182 puts SEP-3182's names into data.type itself.
	SEP3182
	// KeyReused adds the name of servers that take the key as an argument.
	KeyReused
)

// In gives the refusal in a dialect.
func (f Refusal) In(d Dialect) Refusal {
	switch {
	case d == SEP3182 && f.Code == InFlight.Code:
		f.Type, f.Also = f.Also, f.Type
	case d == KeyReused && f.Code == Conflict.Code:
		f.Also = "IDEMPOTENCY_KEY_REUSED"
	}
	return f
}

// WithoutKey gives the refusal for a caller that sent no key: a text about keys would
// tell it nothing.
func (f Refusal) WithoutKey() Refusal {
	if f.Keyless != "" {
		f.Message = f.Keyless
	}
	f.After = strings.ReplaceAll(f.After, " with the same key", "")
	return f
}

const askInstead = "This call is still running: it was sent before, with the same arguments. Do not retry"

// AskInstead gives the refusal of a call that runs, for a caller that repeats calls without
// meaning to: it is to ask the tool that tells the state, and not to call again.
func (f Refusal) AskInstead() Refusal {
	if f.Code == InFlight.Code {
		f.Message, f.After, f.Retry, f.RetryAfter = askInstead, "", "reconcile_first", 0
	}
	return f
}

func withStatus(r Refusal, status int) Refusal {
	r.Status = status
	return r
}

// AppendError appends the refusal as a JSON-RPC error. id is the caller's id token
// (empty → null), operation the call's public name (16 hex digits, "" = none known),
// statusTool the tool that tells a call's state ("" = none). detail, where given, says
// more precisely what was wrong; it must contain nothing that the caller sent.
func (f *Refusal) AppendError(dst, id []byte, operation, statusTool, detail string) []byte {
	dst = appendHead(dst, id, f.Code)
	dst = canonical.AppendString(dst, f.text(statusTool, detail))
	dst = append(dst, `,"data":`...)
	dst = f.appendData(dst, operation)
	return append(dst, "}}"...)
}

// AppendToolResult appends the refusal as a tool's result that says isError, for
// clients whose model sees results only. It has no structuredContent, which clients
// check against the tool's own schema.
func (f *Refusal) AppendToolResult(dst, id []byte, operation, statusTool, detail string) []byte {
	dst = appendID(dst, id)
	dst = append(dst, `,"result":{"resultType":"complete","isError":true,"content":[{"type":"text","text":`...)
	dst = canonical.AppendString(dst, f.text(statusTool, detail))
	dst = append(dst, `}],"_meta":{"callonce.dev/refusal":`...)
	dst = f.appendData(dst, operation)
	return append(dst, "}}}"...)
}

func (f *Refusal) appendData(dst []byte, operation string) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, f.Type...)
	dst = append(dst, `","may_have_run":"`...)
	dst = append(dst, f.MayHaveRun...)
	dst = append(dst, `","retry":"`...)
	dst = append(dst, f.Retry...)
	dst = append(dst, '"')
	if operation != "" {
		dst = append(dst, `,"operation":"`...)
		dst = append(dst, operation...)
		dst = append(dst, '"')
	}
	if f.StatusPath != "" {
		dst = canonical.AppendString(append(dst, `,"status_path":`...), []byte(f.StatusPath))
	}
	if f.RetryAfter > 0 {
		// Most clients show no header to whoever calls.
		dst = append(dst, `,"retry_after_ms":`...)
		dst = strconv.AppendInt(dst, int64(f.RetryAfter)*1000, 10)
	}
	if f.Also != "" {
		dst = append(dst, `,"also":["`...)
		dst = append(dst, f.Also...)
		dst = append(dst, `"]`...)
	}
	return append(dst, '}')
}

func appendID(dst, id []byte) []byte {
	if len(id) == 0 {
		id = []byte("null")
	}
	return append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
}

func appendHead(dst, id []byte, code int) []byte {
	dst = appendID(dst, id)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	return append(dst, `,"message":`...)
}

// text is the whole message for the model that reads it.
func (f *Refusal) text(statusTool, detail string) []byte {
	b := append([]byte(nil), f.Message...)
	if detail != "" {
		b = append(bytes.TrimSuffix(b, []byte(".")), ": "...)
		b = append(b, detail...)
	}
	if f.Advice != "" && statusTool != "" {
		b = append(b, "; "...)
		for i := 0; i < len(f.Advice); i++ {
			if f.Advice[i] == '%' && i+1 < len(f.Advice) && f.Advice[i+1] == 's' {
				b = append(b, statusTool...)
				i++
				continue
			}
			b = append(b, f.Advice[i])
		}
	}
	if b[len(b)-1] != '.' {
		b = append(b, '.')
	}
	return append(b, f.After...)
}

// HeaderMismatch is the protocol's own code for routing headers that differ from the
// body (MCP 2026-07-28).
const HeaderMismatch = -32020

// AppendHeaderMismatch appends the protocol's own error for routing headers.
func AppendHeaderMismatch(dst, id []byte, header string) []byte {
	dst = appendHead(dst, id, HeaderMismatch)
	dst = canonical.AppendString(dst, append([]byte("Header mismatch: the body does not say what the header says: "), header...))
	return append(dst, "}}"...)
}
