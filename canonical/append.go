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
		d.tape[n].flags |= omitted
	}
}

// Replace makes Append write canonical, which must be one JSON value in canonical
// form, in place of n. It is copied. The next Parse clears it.
func (d *Doc) Replace(n Node, canonical []byte) {
	if !d.has(n) {
		return
	}
	d.tape[n].flags |= replaced
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
	open, depth := NoNode, 0
	for {
		switch e := &d.tape[n]; {
		case e.flags&replaced != 0:
			i, _ := d.findReplacement(n)
			dst = append(dst, d.text[d.replacements[i].start:d.replacements[i].end]...)
		case e.flags&verbatim != 0:
			dst = append(dst, d.src[e.start:e.end]...)
		case e.flags&lone != 0:
			dst = appendLone(dst, d.text[e.aux:e.tail])
		case e.kind == String:
			dst = AppendString(dst, d.text[e.aux:e.tail])
		case e.kind == Number:
			dst = AppendNumber(dst, d.src[e.start:e.end])
		default:
			dst = append(dst, d.src[e.start])
			d.cursors[depth] = d.begin(n)
			depth++
			open = n
		}
		for {
			if depth == 0 {
				return dst
			}
			if n = d.step(open, &d.cursors[depth-1]); n != NoNode {
				break
			}
			dst = append(dst, closing(d.src[d.tape[open].start]))
			depth--
			open = d.tape[open].parent
		}
		if last := dst[len(dst)-1]; last != '[' && last != '{' {
			dst = append(dst, ',')
		}
		if d.tape[open].kind == Object {
			dst = append(d.appendName(dst, n-1), ':')
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

func (d *Doc) appendName(dst []byte, name Node) []byte {
	e := &d.tape[name]
	if e.flags&escaped != 0 {
		return AppendString(dst, d.text[e.aux:e.tail])
	}
	return append(dst, d.src[e.start:e.end]...)
}
