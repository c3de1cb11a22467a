package canonical

import "slices"

// Root is the value of the text; NoNode if none begins in it.
func (d *Doc) Root() Node {
	if len(d.tape) == 0 {
		return NoNode
	}
	return 0
}

func (d *Doc) has(n Node) bool {
	return uint(n) < uint(len(d.tape)) && d.tape[n].kind != memberName
}

// Kind is what n is.
func (d *Doc) Kind(n Node) Kind {
	if !d.has(n) {
		return Invalid
	}
	return d.tape[n].kind
}

// Span is where n stands in the text, brackets and quotes included. After an error, a
// container that was not read to its end ends where reading stopped. NoNode gives
// 0, 0.
func (d *Doc) Span(n Node) (start, end int) {
	if !d.has(n) {
		return 0, 0
	}
	return int(d.tape[n].start), int(d.tape[n].end)
}

// Raw is the bytes of n as they stand in the text: a part of the text itself. NoNode
// gives nil.
func (d *Doc) Raw(n Node) []byte {
	if !d.has(n) {
		return nil
	}
	start, end := d.Span(n)
	return d.src[start:end:end]
}

// Text is the decoded value of the string n, nil for anything else. It is a part of
// the text or of the Doc's own memory: not to be changed, and good until the next
// Parse. It is well-formed UTF-8, unless [Doc.Lone] says otherwise: then each half of a
// surrogate pair alone is three bytes, 0xed first, that UTF-8 does not allow.
func (d *Doc) Text(n Node) []byte {
	if d.Kind(n) != String {
		return nil
	}
	if e := &d.tape[n]; e.flags&escaped != 0 && e.aux == none {
		d.decode(e)
	}
	return slices.Clip(d.decoded(n))
}

// Lone is the offset in the text of the first escape in the string n that is half of a
// surrogate pair without the other; -1 if there is none, or if n is no string. Readers
// make different things of one, so a caller for which a text must be certain asks.
func (d *Doc) Lone(n Node) int {
	if d.Kind(n) != String || d.tape[n].flags&lone == 0 {
		return none
	}
	for i := int(d.tape[n].start); ; {
		if d.src[i] != '\\' {
			i++
			continue
		}
		r, end, _ := unescape(d.src, i)
		if isSurrogate(r) {
			return i
		}
		i = end
	}
}

// nameOf is the entry of the name of n; NoNode if n is not a member of an object.
func (d *Doc) nameOf(n Node) Node {
	if n < 1 || int(n) >= len(d.tape) || d.tape[n-1].kind != memberName {
		return NoNode
	}
	return n - 1
}

// Name is the decoded name of the member whose value is n, nil if n is not the value
// of a member. It is good for as long as [Doc.Text].
func (d *Doc) Name(n Node) []byte {
	name := d.nameOf(n)
	if name == NoNode {
		return nil
	}
	return slices.Clip(d.decoded(name))
}

// MemberSpan is where the member whose value is n stands in the text, from the
// opening quote of its name to the end of n. For other nodes it is their Span.
func (d *Doc) MemberSpan(n Node) (start, end int) {
	start, end = d.Span(n)
	if name := d.nameOf(n); name != NoNode {
		start = int(d.tape[name].start)
	}
	return start, end
}

// Parent is the container that holds n; NoNode for the root.
func (d *Doc) Parent(n Node) Node {
	if !d.has(n) {
		return NoNode
	}
	return d.tape[n].parent
}

// First is the first value in the container n, in the order of the text; NoNode if it
// is empty or no container.
func (d *Doc) First(n Node) Node {
	kind := d.Kind(n)
	if kind != Array && kind != Object || d.tape[n].tail == int32(n)+1 {
		return NoNode
	}
	if kind == Object {
		return n + 2
	}
	return n + 1
}

// behind is the first entry behind n and all that is in it.
func (d *Doc) behind(n Node) Node {
	if e := &d.tape[n]; e.kind >= Array && e.kind != memberName {
		return Node(e.tail)
	}
	return n + 1
}

// Next is the value after n in the container that holds it, in the order of the text;
// NoNode if n is the last.
func (d *Doc) Next(n Node) Node {
	if !d.has(n) {
		return NoNode
	}
	parent, next := d.tape[n].parent, d.behind(n)
	if parent == NoNode || next >= Node(d.tape[parent].tail) {
		return NoNode
	}
	if d.tape[next].kind == memberName {
		next++
	}
	return next
}

// Member is the value of the member of object that has the given name; NoNode if
// there is none, or if object is not an object. After an error, if several have that
// name, it is the first.
func (d *Doc) Member(object Node, name string) Node {
	if d.Kind(object) != Object {
		return NoNode
	}
	end := Node(d.tape[object].tail)
	for n := object + 1; n < end; n = d.behind(n + 1) {
		// Most names differ in their length, or have no escapes.
		if e := &d.tape[n]; e.flags&escaped != 0 || int(e.end-e.start) == len(name)+2 {
			if string(d.decoded(n)) == name {
				return n + 1
			}
		}
	}
	return NoNode
}

// Complete reports whether n was read to its end before the earliest defect of the
// text; always true for a value of a text without a defect. A number or a literal
// that touches the defect is not complete: it could have gone on.
func (d *Doc) Complete(n Node) bool {
	if !d.has(n) {
		return false
	}
	e := &d.tape[n]
	end := int(e.end)
	if e.kind < String {
		end++
	}
	return e.flags&unclosed == 0 && end <= d.defect
}
