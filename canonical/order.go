package canonical

import (
	"cmp"
	"slices"
)

// CompareNames compares two names, given as well-formed UTF-8, in the order of RFC
// 8785 section 3.2.3: by UTF-16 code units. It returns -1, 0 or 1.
func CompareNames(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return cmp.Compare(rank(a[i]), rank(b[i]))
		}
	}
	return cmp.Compare(len(a), len(b))
}

// rank orders the bytes at which two UTF-8 texts first differ as the code units of
// the same texts in UTF-16 are ordered. The two orders differ only where one text
// has a code point from U+E000 to U+FFFF (lead bytes 0xee and 0xef) and the other
// one above, whose surrogates are smaller (lead bytes from 0xf0 on).
func rank(c byte) byte {
	if c >= 0xf0 {
		return c - 2
	}
	if c >= 0xee {
		return c + 0x10
	}
	return c
}

// sortable is a member name with its first eight bytes, ranked, as a number.
type sortable struct {
	head uint64
	name Node
}

const sortableSize = 16

func (d *Doc) sortable(name Node) sortable {
	text := d.decoded(name)
	var head uint64
	for i := range min(len(text), 8) {
		head |= uint64(rank(text[i])) << (56 - 8*i)
	}
	return sortable{head, name}
}

// sortNames puts the names of an object into d.names: in canonical order, those that
// are equal in document order. In an object that is being read, a name whose value
// has not come yet is among them.
func (d *Doc) sortNames(object Node) {
	d.names = d.names[:0]
	for n := object + 1; n < Node(d.tape[object].tail); {
		d.names = append(d.names, d.sortable(n))
		n++
		if n < Node(len(d.tape)) {
			n = d.behind(n)
		}
	}
	slices.SortFunc(d.names, func(a, b sortable) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		if c := CompareNames(d.decoded(a.name), d.decoded(b.name)); c != 0 {
			return c
		}
		return cmp.Compare(a.name, b.name)
	})
}

// duplicate looks in d.names for the earliest name that stands there twice, and
// returns the first entry of that name and the second; NoNode if all differ.
func (d *Doc) duplicate() (first, second Node) {
	first, second = NoNode, NoNode
	for i := 1; i < len(d.names); i++ {
		a, b := d.names[i-1], d.names[i]
		if a.head == b.head && (second == NoNode || b.name < second) &&
			CompareNames(d.decoded(a.name), d.decoded(b.name)) == 0 {
			first, second = a.name, b.name
		}
	}
	return first, second
}

// list keeps the order of d.names as that of object's members.
func (d *Doc) list(object Node) {
	e := &d.tape[object]
	e.flags |= listed
	e.aux = int32(len(d.order))
	for _, s := range d.names {
		d.order = append(d.order, s.name+1)
	}
	d.order = append(d.order, NoNode)
}

// Sorted returns the members of object in canonical order; nil if it is not an
// object. The slice is the Doc's own: it is not to be changed, and good until the
// next Parse.
func (d *Doc) Sorted(object Node) []Node {
	if d.Kind(object) != Object {
		return nil
	}
	if d.tape[object].flags&listed == 0 {
		d.sortNames(object)
		d.list(object)
	}
	start := d.tape[object].aux
	end := start
	for d.order[end] != NoNode {
		end++
	}
	return d.order[start:end:end]
}
