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
	IDStart, IDEnd int  // where the id's token stands in the message
	Code           int  // of a Failed or Unnamed: the error's code, 0 where it is no integer of 32 bits
	Ours           bool // of a Malformed: a whole text in which a result or error of our id stands

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
	r.Ours = false
	switch e.read(text) {
	case broken:
		return r.malformed(text, id)
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
	if !failed && !succeeded {
		return NotOurs // no JSON-RPC response
	}
	if failed && succeeded {
		return r.malformed(text, id)
	}
	same, ok := r.sameID(e.raw(text, fieldID), id)
	if !ok {
		return Malformed
	}
	if !same {
		return r.unnamed(text, failed)
	}
	r.IDStart, r.IDEnd = e.spans[fieldID].start, e.spans[fieldID].end
	a := Answer(0)
	if failed {
		a = r.failure(text)
	} else {
		a = r.result(text)
	}
	r.Ours = a == Malformed
	return a
}

// malformed looks at what was read before the defect: whether the call was answered.
func (r *Response) malformed(text, id []byte) Answer {
	e := &r.envelope
	if its := e.raw(text, fieldID); its != nil && !e.begun(fieldMethod) && (e.begun(fieldResult) || e.begun(fieldError)) {
		same, _ := r.sameID(its, id)
		var v Value
		v.Feed(text)
		r.Ours = same && v.Done
	}
	return Malformed
}

// unnamed is for the errors of a server that could not read the request, or would not, and
// so did not name it.
func (r *Response) unnamed(text []byte, failed bool) Answer {
	if failed && namesNone(r.envelope.raw(text, fieldID)) && r.failure(text) == Failed {
		r.IDStart, r.IDEnd = 0, 0
		return Unnamed
	}
	return NotOurs
}

// namesNone reports an error's id that is no request's: null or not there (JSON-RPC 2.0,
// section 5), or what the official Python server puts in its place.
func namesNone(id []byte) bool {
	return id == nil || string(id) == "null" || string(id) == `"server-error"`
}

// Begins says what a message is by its beginning, which is all that is known of one that
// is too long. An error whose id does not stand there is Unnamed, a result without one is
// ours; Malformed is a message of which it cannot be told whether it is a response.
func (r *Response) Begins(prefix, id []byte) Answer {
	e := &r.envelope
	e.read(prefix)
	its := e.raw(prefix, fieldID)
	same, ok := r.sameID(its, id)
	failed := e.begun(fieldError) && string(e.raw(prefix, fieldError)) != "null"
	succeeded := e.begun(fieldResult) && string(e.raw(prefix, fieldResult)) != "null"
	switch {
	case e.begun(fieldMethod):
		return NotOurs
	case !same && ok && !namesNone(its):
		return NotOurs
	case !failed && !succeeded:
		return Malformed
	case succeeded && !failed:
		if a := r.result(prefix); a != Malformed {
			return a
		}
	case failed && !succeeded:
		a := r.failure(prefix)
		if a == Failed && !same {
			return Unnamed
		}
		return a
	}
	return Result
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
