package canonical

import (
	"cmp"
	"math/bits"
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

// sortable is a member name with the eight bytes behind what all names of its object
// begin with, ranked, as a number.
type sortable struct {
	head uint64
	name Node
}

const sortableSize = 16

// head is 0 in the bytes behind a short text.
func head(text []byte) uint64 {
	if cap(text) >= 8 {
		x := load(text[:8])
		if len(text) < 8 {
			x &= 1<<(8*len(text)) - 1
		}
		if x&tops == 0 {
			return bits.ReverseBytes64(x)
		}
	}
	text = text[:min(len(text), 8)]
	var x uint64
	for i, c := range text {
		x |= uint64(rank(c)) << (56 - 8*i)
	}
	return x
}

// head is that of the name in entry n.
func (d *Doc) head(n Node) uint64 {
	e := &d.tape[n]
	if e.flags&escaped != 0 {
		return head(d.text[e.aux:e.tail])
	}
	return uint64(uint32(e.tail))<<32 | uint64(uint32(e.aux))
}

// setHead keeps the head of a name without escapes where others have their text.
func (e *entry) setHead(h uint64) { e.tail, e.aux = int32(h>>32), int32(h) }

// sortNames puts the names of an object into d.names: in canonical order, those that
// are equal in document order. In an object that is being read, a name whose value
// has not come yet is among them.
func (d *Doc) sortNames(object Node) {
	d.names = d.names[:0]
	for n := object + 1; n < Node(d.tape[object].tail); {
		d.names = append(d.names, sortable{d.head(n), n})
		n++
		if n < Node(len(d.tape)) {
			n = d.behind(n)
		}
	}
	if len(d.names) <= run {
		d.insertionSort(d.names)
		return
	}
	d.skipShared(d.names)
	d.mergeSort()
}

// skipShared sets the heads of names to what is behind that with which all begin.
func (d *Doc) skipShared(names []sortable) {
	first := d.decoded(names[0].name)
	shared := len(first)
	for i := 1; i < len(names) && shared > 0; i++ {
		shared = sharedPrefix(first[:shared], d.decoded(names[i].name))
	}
	if shared == 0 {
		return
	}
	for i := range names {
		names[i].head = head(d.decoded(names[i].name)[shared:])
	}
}

// run is how many names are sorted by insertion before merging begins.
const run = 8

// mergeSort sorts d.names, of which there are more than run. A sort of its own, because
// it is stable, takes no longer than O(n log n) on any input, and compares most names
// without a call.
func (d *Doc) mergeSort() {
	names := d.names
	for i := 0; i < len(names); i += run {
		d.insertionSort(names[i:min(i+run, len(names))])
	}
	d.merged = slices.Grow(d.merged[:0], len(names))[:len(names)]
	to := d.merged
	for size := run; size < len(names); size *= 2 {
		for i := 0; i < len(names); i += 2 * size {
			middle := min(i+size, len(names))
			end := min(i+2*size, len(names))
			d.merge(to[i:end], names[i:middle], names[middle:end])
		}
		names, to = to, names
	}
	d.names, d.merged = names, to
}

func (d *Doc) insertionSort(names []sortable) {
	for i := 1; i < len(names); i++ {
		s, k := names[i], i
		for ; k > 0 && d.less(s, names[k-1]); k-- {
			names[k] = names[k-1]
		}
		names[k] = s
	}
}

// merge fills to from two sorted runs.
func (d *Doc) merge(to, a, b []sortable) {
	i, j := 0, 0
	for k := range to {
		if j == len(b) || i < len(a) && !d.less(b[j], a[i]) {
			to[k] = a[i]
			i++
		} else {
			to[k] = b[j]
			j++
		}
	}
}

func (d *Doc) less(a, b sortable) bool {
	return a.head < b.head || a.head == b.head && d.lessNames(a, b)
}

func (d *Doc) lessNames(a, b sortable) bool {
	return CompareNames(d.decoded(a.name), d.decoded(b.name)) < 0
}

func sharedPrefix(a, b []byte) int {
	for i := range a {
		if i == len(b) || a[i] != b[i] {
			return i
		}
	}
	return len(a)
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
	if d.First(object) == NoNode || d.tape[object].kind != Object {
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
