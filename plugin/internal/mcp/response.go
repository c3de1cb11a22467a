package mcp

import (
	"bytes"
	"crypto/sha256"
	"strconv"

	"github.com/callonce/callonce/canonical"
)

// Answer is what a message turned out to be for the call whose id was given.
type Answer uint8

const (
	// NotOurs is a message that is no response to our id: a notification, a server's own
	// request (which may use our id), a response to somebody else.
	NotOurs Answer = iota
	// Result is a result that ends the call.
	Result
	// Failed is a JSON-RPC error that ends the call; Response.Code is its code.
	Failed
	// ToolError is a result with isError: true.
	ToolError
	// InputRequired is a result that asks for another leg (multi-round trips).
	InputRequired
	// Task is a result that hands out a task.
	Task
	// Cancelled is the error of a server that was told to stop: the tool may have run.
	Cancelled
	// Unnamed is an error that names no request: that of a server that could not read it, or
	// would not. Response.Code is its code.
	Unnamed
	// Malformed is a text that is no message, or one that can be read two ways: a member
	// that says what it is comes twice or is broken, or it is a batch of several.
	Malformed
)

// Response reads messages that come back. It is reused.
type Response struct {
	IDStart, IDEnd int // where the id's token stands in the message
	Code           int // of a Failed or Unnamed: the error's code, 0 where it is no integer of 32 bits

	envelope envelope
	doc      canonical.Doc
	mine     []byte
	its      []byte
}

// Trim cuts white space, and a byte order mark, off both ends of a message.
func Trim(message []byte) []byte {
	message = message[leadingMark(message):]
	for len(message) > 0 && isSpace(message[0]) {
		message = message[1:]
	}
	for len(message) > 0 && isSpace(message[len(message)-1]) {
		message = message[:len(message)-1]
	}
	return message
}

// Read reads one message, which may stand alone in a batch, and says what it is for the
// request whose id has the token id, or what KeepID kept of it. Ids are compared by
// value: 7 and 7.0 are one, "7" is another.
func (r *Response) Read(text, id []byte) Answer {
	e := &r.envelope
	switch e.read(text) {
	case broken:
		return Malformed
	case other:
		return NotOurs
	}
	if e.begun(fieldMethod) {
		return NotOurs
	}
	// Serialisers that write out every member of a class write null for the one of the
	// two that is not there.
	result, failure := e.raw(text, fieldResult), e.raw(text, fieldError)
	failed := failure != nil && string(failure) != "null"
	succeeded := result != nil && !(failed && string(result) == "null")
	if failed == succeeded {
		return NotOurs // neither, or both: no JSON-RPC response
	}
	same, ok := r.sameID(e.raw(text, fieldID), id)
	if !ok {
		return Malformed
	}
	if !same {
		return r.unnamed(text, failed)
	}
	r.IDStart, r.IDEnd = e.spans[fieldID].start, e.spans[fieldID].end
	if failed {
		return r.failure(text)
	}
	return r.result(text)
}

// unnamed is for the errors of a server that could not read the request, and so could not
// name it (JSON-RPC 2.0, section 5): their id is null, or not there. Only the codes that
// say so count: others may be another request's.
func (r *Response) unnamed(text []byte, failed bool) Answer {
	if id := r.envelope.raw(text, fieldID); !failed || id != nil && string(id) != "null" {
		return NotOurs
	}
	if a := r.failure(text); a != Failed || r.Code != parseError && r.Code != invalidRequest {
		return NotOurs
	}
	return Unnamed
}

const (
	parseError     = -32700
	invalidRequest = -32600
)

// Begins says what a message is by its beginning, which is all that is known of one that
// is too long: NotOurs, Result for a response of whatever kind that must be ours, or
// Malformed where that cannot be told.
func (r *Response) Begins(prefix, id []byte) Answer {
	e := &r.envelope
	e.read(prefix)
	its := e.raw(prefix, fieldID)
	switch same, ok := r.sameID(its, id); {
	case e.begun(fieldMethod):
		return NotOurs
	case its != nil && !same && ok && string(its) != "null":
		return NotOurs
	case e.begun(fieldResult), e.begun(fieldError):
		return Result
	}
	return Malformed
}

// failure reads an error.
func (r *Response) failure(text []byte) Answer {
	code, message := r.envelope.raw(text, fieldCode), r.envelope.raw(text, fieldMessage)
	r.Code = 0
	if code == nil || !beginsNumber(code) {
		return Failed
	}
	form, err := canonical.Append(r.its[:0], code)
	if r.its = form[:0]; err != nil {
		return Malformed
	}
	n, err := strconv.ParseInt(string(form), 10, 32)
	if err != nil {
		return Failed
	}
	r.Code = int(n)
	if r.Code == requestCancelled || r.Code == 0 && r.says(message, `"Request cancelled"`) {
		return Cancelled
	}
	return Failed
}

// requestCancelled is the code that JSON-RPC peers share for a request that its client
// had cancelled. The first generation of the official Python servers says so in words,
// with code 0.
const requestCancelled = -32800

func beginsNumber(token []byte) bool { return token[0] == '-' || token[0]-'0' <= 9 }

// says reports whether a token is a string of this canonical form.
func (r *Response) says(token []byte, form string) bool {
	if len(token) == 0 || token[0] != '"' {
		return false
	}
	its, err := canonical.Append(r.its[:0], token)
	r.its = its[:0]
	return err == nil && string(its) == form
}

// result reads a result. isError and resultType must be JSON: what they say must not
// depend on who reads.
func (r *Response) result(text []byte) Answer {
	kind, wrong := r.envelope.raw(text, fieldResultType), r.envelope.raw(text, fieldIsError)
	for _, token := range [][]byte{kind, wrong} {
		if len(token) == 0 || token[0] == '{' || token[0] == '[' {
			continue
		}
		form, ok := appendText(r.its[:0], token)
		if r.its = form[:0]; !ok {
			return Malformed
		}
	}
	switch {
	case r.says(kind, `"input_required"`):
		return InputRequired
	case r.says(kind, `"task"`):
		return Task
	case string(wrong) == "true":
		return ToolError
	}
	return Result
}

// MostID is the longest id token, in bytes, that KeepID keeps as it is.
const MostID = 1 << 10

// sumMark begins what KeepID keeps of a longer one. No JSON text begins with it.
const sumMark = 0

// RetainID gives what Response needs to know the answers to a request whose id has the
// token id, good for as long as id is: id itself, or the digest of one that is longer
// than MostID bytes. A caller chooses how long an id is, and how many of its requests
// wait for an answer.
func RetainID(id []byte) []byte {
	if len(id) <= MostID {
		return id
	}
	sum, err := canonical.Fingerprint(id)
	if err != nil {
		return id
	}
	return append([]byte{sumMark}, sum[:]...)
}

// IsToken reports whether what KeepID gave is the id's token.
func IsToken(id []byte) bool { return len(id) == 0 || id[0] != sumMark }

// sameID compares the token of a message's id, nil for none. ok is false for a string or
// number that is no JSON.
func (r *Response) sameID(token, id []byte) (same, ok bool) {
	if len(token) == 0 || token[0] != '"' && !beginsNumber(token) {
		return false, true
	}
	if IsToken(id) && bytes.Equal(token, id) {
		return true, true
	}
	its, ok := appendText(r.its[:0], token)
	if r.its = its; !ok {
		return false, false
	}
	if !IsToken(id) {
		sum := sha256.Sum256(its)
		return bytes.Equal(sum[:], id[1:]), true
	}
	mine, err := canonical.Append(r.mine[:0], id)
	r.mine = mine
	return err == nil && bytes.Equal(mine, its), true
}

// AppendReplay appends message with the id's token put in place of the one at
// [start, end).
func AppendReplay(dst, message []byte, start, end int, id []byte) []byte {
	dst = append(dst, message[:start]...)
	dst = append(dst, id...)
	return append(dst, message[end:]...)
}

// AppendEvent appends message as one server-sent event. Line ends inside, which
// JSON allows between tokens, become lines of data of their own.
func AppendEvent(dst, message []byte) []byte {
	dst = append(dst, "event: message\ndata: "...)
	for i := 0; i < len(message); i++ {
		switch c := message[i]; c {
		case '\n':
			dst = append(dst, "\ndata: "...)
		case '\r':
			// White space between tokens; in a data line it would end the line.
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, "\n\n"...)
}
