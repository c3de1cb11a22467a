package mcp

import (
	"unicode/utf8"

	"github.com/callonce/callonce/canonical"
)

const replayedMember = `"callonce.dev/replayed":true`

// AppendMarked appends a stored response with _meta["callonce.dev/replayed"] = true
// put into its result. An error, or a _meta that is no object, has no place for it
// and is appended as it is.
func (r *Response) AppendMarked(dst, message []byte) []byte {
	if r.doc.Parse(message) != nil {
		return append(dst, message...)
	}
	result := r.doc.Member(r.doc.Root(), "result")
	if result == canonical.NoNode || r.doc.Kind(result) != canonical.Object {
		return append(dst, message...)
	}
	into, text := result, `"_meta":{`+replayedMember+`}`
	if meta := r.doc.Member(result, "_meta"); meta != canonical.NoNode {
		if r.doc.Kind(meta) != canonical.Object || r.doc.Member(meta, "callonce.dev/replayed") != canonical.NoNode {
			return append(dst, message...)
		}
		into, text = meta, replayedMember
	}
	return r.appendMember(dst, message, into, text)
}

// appendMember appends message with a member put at the front of an object in it.
func (r *Response) appendMember(dst, message []byte, object canonical.Node, text string) []byte {
	start, _ := r.doc.Span(object)
	dst = append(dst, message[:start+1]...)
	dst = append(dst, text...)
	if r.doc.First(object) != canonical.NoNode {
		dst = append(dst, ',')
	}
	return append(dst, message[start+1:]...)
}

// maxResultID is the most bytes of a downstream write's id that are logged.
const maxResultID = 128

// ResultID gives the text of the string or number at pointer in the result that was
// read last, "" where there is none. It is cut to at most 128
// bytes, in whole characters.
func (r *Response) ResultID(pointer string) string {
	result := r.doc.Member(r.doc.Root(), "result")
	if result == canonical.NoNode {
		return ""
	}
	n := r.doc.Pointer(result, pointer)
	if n == canonical.NoNode {
		return ""
	}
	var text []byte
	switch r.doc.Kind(n) {
	case canonical.String:
		if r.doc.Lone(n) < 0 { // else it is no text that a log could hold
			text = r.doc.Text(n)
		}
	case canonical.Number:
		text = r.doc.Raw(n)
	}
	end := min(len(text), maxResultID)
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return string(text[:end])
}
