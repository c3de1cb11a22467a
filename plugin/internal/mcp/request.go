package mcp

import (
	"bytes"
	"strings"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/scratch"
)

// Kind is what a request's body turned out to be.
type Kind uint8

const (
	// Other is a message that calls no tool, or no message at all.
	Other Kind = iota
	// ToolCall is one well-formed tools/call.
	ToolCall
	// Ambiguous is a body that a server may read another way than we do.
	Ambiguous
)

// ToolsCall is the method that calls a tool.
const ToolsCall = "tools/call"

// Request is one body, read. It is reused from call to call; Read keeps body.
type Request struct {
	Kind   Kind
	Defect string // why it is Ambiguous, for the refusal's text: no byte of the body in it
	Offset int    // where, in bytes; -1 = nowhere in particular
	ID     []byte // exact token of the request's id, nil when it could not be read
	Name   []byte // the tool's name, for a ToolCall
	Keyed  bool   // a key stands in one of the key sources in the body, or (if Ambiguous) might

	broken []byte // a body that is not strict JSON, of which what follows the defect was not read
	doc    canonical.Doc
	params canonical.Node
	args   canonical.Node // NoNode when absent
	keys   []bodyKey
}

type bodyKey struct {
	node   canonical.Node
	absent bool // null, or an argument that is empty: a key that was not given
}

// Read reads body strictly (canonical.Doc) and decides what it is. pointers are the
// JSON Pointers below params where a key may stand.
func (r *Request) Read(body []byte, pointers []string) {
	r.reset()
	err := r.doc.Parse(body)
	root := r.doc.Root()
	switch kind := r.doc.Kind(root); {
	case err != nil:
		r.ambiguous("a body that is not one strict JSON value")
		r.broken = body
		if at, ok := err.(*canonical.Error); ok {
			r.Offset = at.Offset
			if at.Reason == canonical.TooMany {
				r.ambiguous("a body of too many values")
			}
		}
		r.findID(root)
	case kind == canonical.Array:
		r.readBatch(root)
	case kind == canonical.Object:
		r.readMessage(root, pointers)
	}
	if r.Kind == Ambiguous && !r.Keyed {
		r.Keyed = keyed(body, pointers)
	}
}

// maxValues is the most values and member names of a message that are read: what they
// take (24 bytes each, and as much again while reading) must fit a worker's VM, which dies at
// 1 GiB and takes the calls of others with it. No message below 4 MiB has so many.
const maxValues = 2 << 20

func (r *Request) reset() {
	r.doc.Limit(maxValues)
	// Member by member: a Doc is too large to be copied for nothing.
	r.Kind, r.Defect, r.Offset = Other, "", -1
	r.ID, r.Name, r.Keyed, r.broken = nil, nil, false, nil
	r.keys, r.params, r.args = r.keys[:0], canonical.NoNode, canonical.NoNode
}

func (r *Request) ambiguous(defect string) {
	r.Kind, r.Defect = Ambiguous, defect
}

// Doubt makes what was read of body Ambiguous, for a reason that stands outside of it.
func (r *Request) Doubt(defect string, body []byte, pointers []string) {
	if r.Kind == Ambiguous {
		return
	}
	r.ambiguous(defect)
	r.Keyed = r.Keyed || keyed(body, pointers)
}

// certain reports whether a string says the same to every reader. Half of a surrogate pair
// alone does not: some put U+FFFD in its place, some nothing. That is the strings' affair
// but where they say what is called, or who is answered.
func (r *Request) certain(n canonical.Node) bool {
	at := r.doc.Lone(n)
	if at < 0 {
		return true
	}
	r.ambiguous("a method, id, tool's name or key with half of a surrogate pair in it")
	r.Offset = at
	return false
}

// readBatch looks into a batch (a JSON-RPC feature of 2025-03-26 only): one that
// holds a tools/call cannot be guarded.
func (r *Request) readBatch(root canonical.Node) {
	for e := r.doc.First(root); e != canonical.NoNode; e = r.doc.Next(e) {
		if r.doc.Kind(e) == canonical.Array && r.doc.First(e) != canonical.NoNode {
			r.ambiguous("a batch within a batch")
			return
		}
		if r.doc.Kind(e) != canonical.Object {
			continue
		}
		for m := r.doc.First(e); m != canonical.NoNode; m = r.doc.Next(m) {
			switch name := r.doc.Name(m); {
			case bytes.EqualFold(name, []byte("method")):
				if !r.certain(m) {
					return
				}
				if r.isCall(m) {
					r.ambiguous("a batch that holds a " + ToolsCall)
					return
				}
			case string(name) == "id" && !r.certain(m):
				return
			}
		}
	}
}

func (r *Request) isCall(method canonical.Node) bool {
	return r.doc.Kind(method) == canonical.String && string(r.doc.Text(method)) == ToolsCall
}

func (r *Request) readMessage(root canonical.Node, pointers []string) {
	r.findID(root)
	method := r.doc.Member(root, "method")
	params := r.doc.Member(root, "params")
	if !r.certain(method) || !r.certain(r.doc.Member(root, "id")) {
		return
	}
	if r.hasCaseVariant(root, "method", "params", "id") {
		r.ambiguous("a top-level member that equals method, params or id but for case")
		return
	}
	if method == canonical.NoNode || !r.isCall(method) {
		return
	}
	if !r.findKeys(params, pointers) {
		return
	}
	if r.ID == nil {
		r.ambiguous("a tools/call whose id is not a string or an integer")
		return
	}
	if params == canonical.NoNode || r.doc.Kind(params) != canonical.Object {
		r.ambiguous("a tools/call whose params is not an object")
		return
	}
	if r.hasCaseVariant(params, "name", "arguments") {
		r.ambiguous("a member of params that equals name or arguments but for case")
		return
	}
	name := r.doc.Member(params, "name")
	if name == canonical.NoNode || r.doc.Kind(name) != canonical.String {
		r.ambiguous("a tools/call whose name is not a string")
		return
	}
	args := r.doc.Member(params, "arguments")
	if args != canonical.NoNode && r.doc.Kind(args) != canonical.Object && !r.isEmpty(args) {
		r.ambiguous("a tools/call whose arguments is not an object")
		return
	}
	if !r.certain(name) {
		return
	}
	if r.hasKeyVariant(params, pointers) {
		r.ambiguous("a key in a member that equals one of the key sources' but for case")
		return
	}
	r.Kind, r.params, r.args, r.Name = ToolCall, params, args, r.doc.Text(name)
}

// isEmpty reports whether arguments that are no object stand for an empty one: null, or the
// empty list that PHP makes of it.
func (r *Request) isEmpty(args canonical.Node) bool {
	kind := r.doc.Kind(args)
	return kind == canonical.Null || kind == canonical.Array && r.doc.First(args) == canonical.NoNode
}

// findID takes the id's token when it is a string or an integer.
func (r *Request) findID(root canonical.Node) {
	id := r.doc.Member(root, "id")
	if id == canonical.NoNode || !r.doc.Complete(id) || r.doc.Lone(id) >= 0 {
		return
	}
	raw := r.doc.Raw(id)
	if r.doc.Kind(id) == canonical.String || r.doc.Kind(id) == canonical.Number && isInteger(raw) {
		r.ID = raw
	}
}

// isInteger reports whether a number's token has neither fraction nor exponent.
func isInteger(token []byte) bool {
	for _, c := range token {
		if c == '.' || c|0x20 == 'e' {
			return false
		}
	}
	return true
}

// hasCaseVariant reports a member that equals one of names but for case (Unicode simple
// folding): some servers decode by such names, beside the exact one or instead.
func (r *Request) hasCaseVariant(obj canonical.Node, names ...string) bool {
	for m := r.doc.First(obj); m != canonical.NoNode; m = r.doc.Next(m) {
		name := r.doc.Name(m)
		for _, want := range names {
			// Most names begin with another letter.
			if len(name) > 0 && (name[0]|0x20 == want[0] || name[0] >= 0x80) && isCaseVariant(name, want) {
				return true
			}
		}
	}
	return false
}

// hasKeyVariant reports a key that stands where a key source leads but for case: some servers
// decode so. Inside arguments, which are the tool's own, only a source's last name counts so.
func (r *Request) hasKeyVariant(params canonical.Node, pointers []string) bool {
	for _, pointer := range pointers {
		if r.keyVariantIn(params, pointer, pointer, true) {
			return true
		}
	}
	return false
}

// keyVariantIn looks in the object that the tokens of a pointer before rest, its end, lead to,
// exactly or but for case. It calls itself as often as the pointer has tokens.
func (r *Request) keyVariantIn(object canonical.Node, pointer, rest string, exactly bool) bool {
	token := rest[1:]
	last := true
	if i := strings.IndexByte(token, '/'); i >= 0 {
		token, rest, last = token[:i], token[i:], false
	}
	for m := r.doc.First(object); m != canonical.NoNode; m = r.doc.Next(m) {
		exact, folded := compare(r.doc.Name(m), token)
		if !folded || !exact && !last && inArguments(pointer) {
			continue
		}
		exact = exact && exactly
		if last && !exact && !r.isAbsentKey(m, pointer) {
			return true
		}
		if !last && r.doc.Kind(m) == canonical.Object && r.keyVariantIn(m, pointer, rest, exact) {
			return true
		}
	}
	return false
}

// isAbsentKey reports whether what stands in a key source is no key. Gateways fill the
// optional arguments that a model leaves out with empty strings.
func (r *Request) isAbsentKey(n canonical.Node, pointer string) bool {
	kind := r.doc.Kind(n)
	return kind == canonical.Null || inArguments(pointer) && kind == canonical.String && len(r.doc.Text(n)) == 0
}

// isCaseVariant compares a name with an ASCII word. What Unicode folds to an ASCII letter takes
// at least as many bytes as the letter.
func isCaseVariant(name []byte, want string) bool {
	return len(name) >= len(want) && string(name) != want && bytes.EqualFold(name, []byte(want))
}

// findKeys notes what stands in the key sources. It reports whether all readers agree
// on them.
func (r *Request) findKeys(params canonical.Node, pointers []string) (certain bool) {
	if params == canonical.NoNode {
		return true
	}
	certain = true
	for _, pointer := range pointers {
		n := r.doc.Pointer(params, pointer)
		if n == canonical.NoNode {
			continue
		}
		absent := r.isAbsentKey(n, pointer)
		r.keys = append(r.keys, bodyKey{n, absent})
		r.Keyed = r.Keyed || !absent
		certain = certain && r.certain(n)
	}
	return certain
}

// keptScratch is how much memory a reader keeps for the next body, in bytes.
const keptScratch = 256 << 10

// Release lets go of the body, and of what a huge one made the reader grow to.
func (r *Request) Release() {
	r.ID, r.Name, r.broken = nil, nil, nil
	r.keys = scratch.Keep(r.keys)
	r.doc.Shrink(keptScratch)
}

// MaxKey is the most characters that a key may have.
const MaxKey = 255

// Key gives the key in the body. ok is false when the key sources disagree or contain
// something that is no key; the key is nil when none has one.
func (r *Request) Key() (key []byte, ok bool) {
	for _, k := range r.keys {
		if k.absent {
			continue
		}
		if r.doc.Kind(k.node) != canonical.String {
			return nil, false
		}
		text := r.doc.Text(k.node)
		if n := characters(text); n < 1 || n > MaxKey {
			return nil, false
		}
		if key != nil && !bytes.Equal(key, text) {
			return nil, false
		}
		key = text
	}
	return key, true
}

func characters(utf8 []byte) int {
	n := 0
	for _, c := range utf8 {
		if c&0xC0 != 0x80 {
			n++
		}
	}
	return n
}

// State gives the canonical form of params.requestState (multi-round trips),
// appended to dst; nothing when absent or null.
func (r *Request) State(dst []byte) []byte {
	n := r.doc.Member(r.params, "requestState")
	if n == canonical.NoNode || r.doc.Kind(n) == canonical.Null {
		return dst
	}
	return r.doc.Append(dst, n)
}

// CallsNoTool reports whether the prefix of a body already shows that it is no
// tools/call: its method was read and is another, or it is a response. A second
// method, or one in another case, shows nothing: a server may take that one.
func (r *Request) CallsNoTool(prefix []byte) bool {
	r.reset()
	_ = r.doc.Parse(prefix) // cut short: always an error, and the tape is what counts
	root := r.doc.Root()
	if r.doc.Kind(root) != canonical.Object {
		return false
	}
	shown := false
	for m := r.doc.First(root); m != canonical.NoNode; m = r.doc.Next(m) {
		switch name := r.doc.Name(m); {
		case string(name) == "method":
			if !r.doc.Complete(m) || r.isCall(m) || r.doc.Lone(m) >= 0 {
				return false
			}
			shown = true
		case bytes.EqualFold(name, []byte("method")):
			return false
		case string(name) == "result", string(name) == "error":
			shown = true
		}
	}
	return shown
}
