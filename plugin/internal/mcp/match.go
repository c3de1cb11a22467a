package mcp

import (
	"bytes"

	"github.com/callonce/callonce/canonical"
)

// Sign is a value at a place of a result, by which a server says something of the call.
type Sign struct {
	Pointer string // JSON Pointer into the result
	Equals  []byte // the value there, in canonical form
}

// Shows reports whether one of the signs is in the result of the message that was read
// last. A result that is no strict JSON shows none: what it says at a place would depend on
// who reads it.
func (r *Response) Shows(message []byte, signs []Sign) bool {
	if len(signs) == 0 {
		return false
	}
	defer r.doc.Shrink(keptScratch)
	r.doc.Limit(maxValues)
	if r.doc.Parse(r.envelope.raw(message, fieldResult)) != nil {
		return false
	}
	for i := range signs {
		n := r.doc.Pointer(r.doc.Root(), signs[i].Pointer)
		if n == canonical.NoNode {
			continue
		}
		if k := r.doc.Kind(n); k == canonical.Object || k == canonical.Array {
			continue // no sign is one, and they may be long
		}
		form := r.doc.Append(r.its[:0], n)
		if r.its = form[:0]; bytes.Equal(form, signs[i].Equals) {
			return true
		}
	}
	return false
}
