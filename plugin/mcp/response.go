package mcp

import (
	"bytes"
	"crypto/sha256"

	"github.com/callonce/callonce/canonical"
)

// Answer is what a message turned out to be for the call whose id was given.
type Answer uint8

const (
	// NotOurs is a message that is no response to our id: a notification, a server's own
	// request (which may use our id), a response to somebody else.
	NotOurs Answer = iota
	// Result is a result or a JSON-RPC error that ends the call.
	Result
	// ToolError is a result with isError: true.
	ToolError
	// InputRequired is a result that asks for another leg (multi-round trips).
	InputRequired
	// Task is a result that hands out a task.
	Task
	// Cancelled is the error of a server that was told to stop: the tool may have run.
	Cancelled
	// Malformed is a text that the strict reader refuses.
	Malformed
)

// Response reads messages that come back. It is reused.
type Response struct {
	IDStart, IDEnd int // where the id's token stands in the message

	doc  canonical.Doc
	mine []byte
	its  []byte
}

// Read reads one message strictly and says what it is for the request whose id has
// the token id, or what KeepID kept of it. Ids are compared by value: 7 and 7.0 are one,
// "7" is another.
func (r *Response) Read(message, id []byte) Answer {
	r.doc.Limit(maxValues)
	if r.doc.Parse(message) != nil {
		return Malformed
	}
	root := r.doc.Root()
	if r.doc.Kind(root) != canonical.Object || r.doc.Member(root, "method") != canonical.NoNode {
		return NotOurs
	}
	n := r.doc.Member(root, "id")
	if n == canonical.NoNode || !r.sameID(n, id) {
		return NotOurs
	}
	r.IDStart, r.IDEnd = r.doc.Span(n)
	// Serialisers that write out every member of a class write null for the one of the
	// two that is not there.
	result, failure := r.doc.Member(root, "result"), r.doc.Member(root, "error")
	failed := failure != canonical.NoNode && r.doc.Kind(failure) != canonical.Null
	succeeded := result != canonical.NoNode && !(failed && r.doc.Kind(result) == canonical.Null)
	switch {
	case failed == succeeded:
		return NotOurs // neither, or both: no JSON-RPC response
	case failed && r.cancelled(failure):
		return Cancelled
	case failed:
		return Result
	}
	return r.resultType(result)
}

// cancelled reports whether an error says that the client had the call cancelled: by
// the code that JSON-RPC peers share for it, or as the first generation of the
// official Python servers says it, with code 0.
func (r *Response) cancelled(failure canonical.Node) bool {
	code, text := r.doc.Member(failure, "code"), r.doc.Member(failure, "message")
	if code == canonical.NoNode || r.doc.Kind(code) != canonical.Number {
		return false
	}
	switch string(r.doc.Raw(code)) {
	case "-32800":
		return true
	case "0":
		return text != canonical.NoNode && r.doc.Kind(text) == canonical.String && string(r.doc.Text(text)) == "Request cancelled"
	}
	return false
}

// MostID is the longest id token, in bytes, that KeepID keeps as it is.
const MostID = 1 << 10

// sumMark begins what KeepID keeps of a longer one. No JSON text begins with it.
const sumMark = 0

// KeepID gives what Response needs to know the answers to a request whose id has the
// token id, good for as long as id is: id itself, or the digest of one that is longer
// than MostID bytes. A caller chooses how long an id is, and how many of its requests
// wait for an answer.
func KeepID(id []byte) []byte {
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

func (r *Response) sameID(n canonical.Node, id []byte) bool {
	switch r.doc.Kind(n) {
	case canonical.String, canonical.Number:
	default:
		return false
	}
	if !IsToken(id) {
		r.its = r.doc.Append(r.its[:0], n)
		sum := sha256.Sum256(r.its)
		return bytes.Equal(sum[:], id[1:])
	}
	if bytes.Equal(r.doc.Raw(n), id) {
		return true
	}
	mine, err := canonical.Append(r.mine[:0], id)
	if err != nil {
		return false
	}
	r.mine = mine
	r.its = r.doc.Append(r.its[:0], n)
	return bytes.Equal(r.mine, r.its)
}

func (r *Response) resultType(result canonical.Node) Answer {
	if r.doc.Kind(result) != canonical.Object {
		return Result
	}
	if t := r.doc.Member(result, "resultType"); t != canonical.NoNode && r.doc.Kind(t) == canonical.String {
		switch string(r.doc.Text(t)) {
		case "input_required":
			return InputRequired
		case "task":
			return Task
		}
	}
	if e := r.doc.Member(result, "isError"); e != canonical.NoNode && r.doc.Kind(e) == canonical.True {
		return ToolError
	}
	return Result
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
