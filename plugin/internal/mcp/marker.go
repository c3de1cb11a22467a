package mcp

import (
	"unicode/utf8"

	"github.com/callonce/callonce/canonical"
)

const replayedMember = `"callonce.dev/replayed":true`

// AppendMarked appends a stored response with _meta["callonce.dev/replayed"] = true
// put into its result. An error, or a _meta that is no object, has no place for it
// and is appended as it is.
func (r *Response) AppendMarked(dst, text []byte) []byte {
	e := &r.envelope
	if e.read(text) != message {
		return append(dst, text...)
	}
	result := e.raw(text, fieldResult)
	if len(result) == 0 || result[0] != '{' {
		return append(dst, text...)
	}
	meta := e.raw(text, fieldMeta)
	if meta == nil {
		empty := len(Trim(result[1:len(result)-1])) == 0
		return appendFront(dst, text, e.spans[fieldResult].start, `"_meta":{`+replayedMember+`}`, empty)
	}
	r.doc.Limit(maxValues)
	if r.doc.Parse(meta) != nil || r.doc.Kind(r.doc.Root()) != canonical.Object ||
		r.doc.Member(r.doc.Root(), "callonce.dev/replayed") != canonical.NoNode {
		return append(dst, text...)
	}
	empty := r.doc.First(r.doc.Root()) == canonical.NoNode
	return appendFront(dst, text, e.spans[fieldMeta].start, replayedMember, empty)
}

// replayedText is a block of content that says to a model what it sees.
const replayedText = `{"type":"text","text":"This call ran before. This is its first answer again: nothing was done a second time."}`

// AppendMarkedText appends a stored response with a line for the model at the end of its
// result's content. One without such a list, or that is no strict JSON, has no place for it
// and is appended as it is.
func (r *Response) AppendMarkedText(dst, text []byte) []byte {
	e := &r.envelope
	if e.read(text) != message {
		return append(dst, text...)
	}
	r.doc.Limit(maxValues)
	if r.doc.Parse(e.raw(text, fieldResult)) != nil {
		return append(dst, text...)
	}
	content := r.doc.Member(r.doc.Root(), "content")
	if r.doc.Kind(content) != canonical.Array {
		return append(dst, text...)
	}
	_, end := r.doc.Span(content)
	end += e.spans[fieldResult].start - 1 // at the bracket
	dst = append(dst, text[:end]...)
	if r.doc.First(content) != canonical.NoNode {
		dst = append(dst, ',')
	}
	dst = append(dst, replayedText...)
	return append(dst, text[end:]...)
}

// appendFront appends message with a member put at the front of the object at start.
func appendFront(dst, message []byte, start int, member string, empty bool) []byte {
	dst = append(dst, message[:start+1]...)
	dst = append(dst, member...)
	if !empty {
		dst = append(dst, ',')
	}
	return append(dst, message[start+1:]...)
}

// ResultID gives the text of the string or number at pointer in the result of the message
// that was read last, "" where there is none, or where the result is no strict JSON before
// it. It is cut to at most most bytes, in whole characters.
func (r *Response) ResultID(message []byte, pointer string, most int) string {
	r.doc.Limit(maxValues)
	_ = r.doc.Parse(r.envelope.raw(message, fieldResult)) // what was read before a defect counts
	n := r.doc.Pointer(r.doc.Root(), pointer)
	if n == canonical.NoNode || !r.doc.Complete(n) {
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
	end := min(len(text), most)
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	id := string(text[:end])
	r.doc.Shrink(keptScratch)
	return id
}
