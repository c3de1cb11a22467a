package mcp

import (
	"bytes"

	"github.com/callonce/callonce/canonical"
)

const cancelled = "notifications/cancelled"

// MayCancel reports whether a body can be a notification that a request is cancelled,
// at the cost of a search: as it is, in escapes, or in UTF-16 or UTF-32.
func MayCancel(body []byte) bool {
	return bytes.Contains(body, []byte("cancelled")) || bytes.Contains(body, []byte(`\u`)) || bytes.IndexByte(body, 0) >= 0
}

// Cancels reports whether the body cancels any request.
func (r *Request) Cancels() (any bool) {
	r.EachCancelled(func([]byte) { any = true })
	return any
}

// EachCancelled calls f with the id, in canonical form, of each request that the body
// cancels: one notification, or those of a batch. Names count in any case, and where one is
// there twice both do: some servers read so. Of a body with a defect nobody knows what a server
// reads: where it spells the notification anywhere, id is nil, for every request. id is valid
// during the call only.
func (r *Request) EachCancelled(f func(id []byte)) {
	if r.broken != nil && spelt(r.broken, "notifications~1cancelled") {
		f(nil)
	}
	root := r.doc.Root()
	if r.doc.Kind(root) != canonical.Array {
		r.cancels(root, f)
		return
	}
	for e := r.doc.First(root); e != canonical.NoNode; e = r.doc.Next(e) {
		r.cancels(e, f)
	}
}

func (r *Request) cancels(message canonical.Node, f func(id []byte)) {
	if r.doc.Kind(message) != canonical.Object {
		return
	}
	is := false
	r.named(message, "method", func(n canonical.Node) {
		is = is || r.doc.Kind(n) == canonical.String && string(r.doc.Text(n)) == cancelled
	})
	if !is {
		return
	}
	r.named(message, "params", func(params canonical.Node) {
		r.named(params, "requestId", func(id canonical.Node) {
			if k := r.doc.Kind(id); k == canonical.String || k == canonical.Number {
				f(r.doc.Append(nil, id))
			}
		})
	})
}

// named calls f with each member of an object whose name is want but for case.
func (r *Request) named(object canonical.Node, want string, f func(canonical.Node)) {
	if r.doc.Kind(object) != canonical.Object {
		return
	}
	for m := r.doc.First(object); m != canonical.NoNode; m = r.doc.Next(m) {
		if bytes.EqualFold(r.doc.Name(m), []byte(want)) {
			f(m)
		}
	}
}

// AppendID appends an id's token in canonical form: ids are equal by value.
func AppendID(dst, token []byte) []byte {
	if isPlainID(token) {
		return append(dst, token...)
	}
	form, err := canonical.Append(dst, token)
	if err != nil {
		return append(dst, token...)
	}
	return form
}

// isPlainID reports a token that surely is its own canonical form, as most are.
func isPlainID(token []byte) bool {
	if len(token) > 0 && token[0] == '"' {
		return bytes.IndexByte(token, '\\') < 0
	}
	for _, c := range token {
		if c-'0' > 9 {
			return false
		}
	}
	return len(token) < 16
}
