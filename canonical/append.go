package canonical

import (
	"cmp"
	"slices"
)

// replacement is what was given to Replace: Doc.text[start:end] in place of node.
type replacement struct {
	node       Node
	start, end int
}

const replacementSize = 24

// Omit leaves n, with its name if it is a member, out of what Append writes for the
// containers that hold it. It has no effect on an Append of n itself, and goes
// before a Replace of the same node. The next Parse clears it.
func (d *Doc) Omit(n Node) {
	if d.has(n) {
		d.mark(n, omitted)
	}
}

// mark gives n a flag by which the containers that hold it are not their bytes any
// more. One that is not verbatim lies in none that is.
func (d *Doc) mark(n Node, f flags) {
	e := &d.tape[n]
	e.flags |= f
	for p := e.parent; p != NoNode && d.tape[p].flags&verbatim != 0; p = d.tape[p].parent {
		d.tape[p].flags &^= verbatim
	}
}

// Replace makes Append write canonical, which must be one JSON value in canonical
// form, in place of n. It is copied. The next Parse clears it.
func (d *Doc) Replace(n Node, canonical []byte) {
	if !d.has(n) {
		return
	}
	d.mark(n, replaced)
	r := replacement{n, len(d.text), len(d.text) + len(canonical)}
	d.text = append(d.text, canonical...)
	i, found := d.findReplacement(n)
	if found {
		d.replacements[i] = r
		return
	}
	d.replacements = slices.Insert(d.replacements, i, r)
}

func (d *Doc) findReplacement(n Node) (int, bool) {
	return slices.BinarySearchFunc(d.replacements, n, func(r replacement, n Node) int {
		return cmp.Compare(r.node, n)
	})
}

// Append appends the canonical form of n, as Omit and Replace have changed it, and
// returns the extended buffer. NoNode appends nothing. After an error it writes what
// was read; the result then is a JSON text, but not a canonical form of anything.
func (d *Doc) Append(dst []byte, n Node) []byte {
	if !d.has(n) {
		return dst
	}
	// What the form and the text have in common is copied in pieces as large as may be:
	// src[from:to] is to be written, and is not yet.
	src, from, to := d.src, 0, 0
	open, depth := NoNode, 0
	for {
		e := &d.tape[n]
		switch start, end := int(e.start), int(e.end); {
		case e.flags&(verbatim|replaced) == verbatim || e.kind >= Array && e.flags&replaced == 0:
			if e.flags&verbatim == 0 {
				end = start + 1
				d.cursors[depth] = d.begin(n)
				depth++
				open = n
			}
			if start != to {
				dst = append(dst, src[from:to]...)
				from = start
			}
			to = end
		default:
			dst = d.appendChanged(append(dst, src[from:to]...), n)
			from, to = 0, 0
		}
		first := open == n
		for {
			if depth == 0 {
				return append(dst, src[from:to]...)
			}
			if n = d.step(open, &d.cursors[depth-1]); n != NoNode {
				break
			}
			e := &d.tape[open]
			end := int(e.end)
			switch {
			case e.flags&unclosed != 0:
				dst = append(append(dst, src[from:to]...), closing(src[e.start]))
				from, to = 0, 0
			case to == end-1:
				to = end
			default:
				dst = append(dst, src[from:to]...)
				from, to = end-1, end
			}
			first = false
			depth--
			open = e.parent
		}

		// Before it comes a comma, unless it is the first, and a member's name.
		next := int(d.tape[n].start)
		name := &d.tape[n-1]
		if d.tape[open].kind == Object {
			next = int(name.start)
		} else {
			name = nil
		}
		comma := next
		if !first {
			if comma--; src[comma] != ',' {
				dst = append(append(dst, src[from:to]...), ',')
				comma, from, to = next, next, next
			}
		}
		if comma == next && name == nil {
			continue
		}
		if comma != to {
			dst = append(dst, src[from:to]...)
			from = comma
		}
		if to = next; name == nil {
			continue
		}
		end := int(name.end)
		switch {
		case name.flags&verbatim == 0:
			dst = append(dst, src[from:to]...)
			dst = append(appendText(dst, src[name.start:end]), ':')
			from, to = 0, 0
		case src[end] != ':':
			dst = append(append(dst, src[from:end]...), ':')
			from, to = 0, 0
		default:
			to = end + 1
		}
	}
}

// begin is the cursor that stands before the first value in a container: a place in
// d.order if it is listed, else on the tape.
func (d *Doc) begin(container Node) int32 {
	e := &d.tape[container]
	if e.flags&unsorted == 0 {
		return int32(container) + 1
	}
	if e.flags&listed == 0 {
		d.sortNames(container)
		d.list(container)
	}
	return e.aux
}

// step moves the cursor over the next value in a container that is not left out, and
// returns it; NoNode at the end.
func (d *Doc) step(container Node, cursor *int32) Node {
	e := &d.tape[container]
	for {
		n := Node(*cursor)
		if e.flags&unsorted != 0 {
			if n = d.order[*cursor]; n == NoNode {
				return NoNode
			}
			*cursor++
		} else {
			if *cursor == e.tail {
				return NoNode
			}
			if e.kind == Object {
				n++
			}
			*cursor = int32(d.behind(n))
		}
		if d.tape[n].flags&omitted == 0 {
			return n
		}
	}
}

// appendChanged appends a value, no container unless it was replaced, whose canonical
// form is not its bytes.
func (d *Doc) appendChanged(dst []byte, n Node) []byte {
	e := &d.tape[n]
	switch {
	case e.flags&replaced != 0:
		i, _ := d.findReplacement(n)
		return append(dst, d.text[d.replacements[i].start:d.replacements[i].end]...)
	case e.kind == String:
		return appendText(dst, d.src[e.start:e.end])
	}
	return AppendNumber(dst, d.src[e.start:e.end])
}
