package mcp

import "github.com/callonce/callonce/canonical"

// Hint is what a server says of one of its tools that makes a guard needless (MCP 2025-11-25, ToolAnnotations).
type Hint uint8

const (
	NoHint         Hint = iota
	ReadOnlyHint        // it changes nothing
	IdempotentHint      // a second call with the same arguments changes nothing more
)

// Hints reads the answer to a tools/list whose id has the token id, or what RetainID gave of it, and calls each for every tool in it. ok is
// false where the message is no such answer, or could be read two ways: each may have been called then, and nothing of it counts.
func (r *Response) Hints(message, id []byte, each func(name []byte, hint Hint)) (ok bool) {
	if r.doc.Limit(maxValues); r.doc.Parse(message) != nil {
		return false
	}
	root := r.doc.Root()
	if r.doc.Kind(root) != canonical.Object || r.doc.Member(root, "method") != canonical.NoNode || r.doc.Member(root, "id") == canonical.NoNode {
		return false
	}
	if same, ok := r.sameID(r.doc.Raw(r.doc.Member(root, "id")), id); !same || !ok {
		return false
	}
	tools := r.doc.Pointer(root, "/result/tools")
	if r.doc.Kind(tools) != canonical.Array {
		return false
	}
	for t := r.doc.First(tools); t != canonical.NoNode; t = r.doc.Next(t) {
		name := r.doc.Member(t, "name")
		if r.doc.Kind(t) != canonical.Object || r.doc.Kind(name) != canonical.String || r.doc.Lone(name) >= 0 {
			return false
		}
		each(r.doc.Text(name), r.hint(r.doc.Member(t, "annotations")))
	}
	return true
}

// hint weighs the annotations of a tool. One that is said to destroy, or of which something is said that is neither yes nor no, has none.
func (r *Response) hint(annotations canonical.Node) Hint {
	if r.doc.Kind(annotations) != canonical.Object {
		return NoHint
	}
	destroys, ok := r.yesOrNo(annotations, "destructiveHint")
	reads, ok1 := r.yesOrNo(annotations, "readOnlyHint")
	repeats, ok2 := r.yesOrNo(annotations, "idempotentHint")
	switch {
	case !ok || !ok1 || !ok2 || destroys:
		return NoHint
	case reads:
		return ReadOnlyHint
	case repeats:
		return IdempotentHint
	}
	return NoHint
}

// yesOrNo reads a member that may be missing, and else is a boolean.
func (r *Response) yesOrNo(object canonical.Node, name string) (is, ok bool) {
	switch n := r.doc.Member(object, name); r.doc.Kind(n) {
	case canonical.True:
		return true, true
	case canonical.False, canonical.Invalid:
		return false, true
	}
	return false, false
}

// Cursor is the exact text of a list's cursor in the request that was read, nil where it asks for the first page.
func (r *Request) Cursor() []byte {
	n := r.doc.Pointer(r.doc.Root(), "/params/cursor")
	if k := r.doc.Kind(n); k == canonical.Invalid || k == canonical.Null {
		return nil
	}
	return r.doc.Raw(n)
}
