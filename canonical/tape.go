package canonical

// MaxDepth is the greatest number of containers (objects and arrays) that may lie
// inside one another; a text with MaxDepth+1 is refused.
const MaxDepth = 128

// MaxLength is the greatest length of a text, in bytes: offsets are kept in 32 bits.
const MaxLength = 1<<31 - 1

const (
	maxDepthText  = "128"
	maxLengthText = "2147483647"
)

// Kind is what a value is.
type Kind uint8

// The kinds of a value. Invalid is the kind of NoNode.
const (
	Invalid Kind = iota
	Null
	False
	True
	Number
	String
	Array
	Object

	// memberName is the kind of a tape entry that holds the name of the member whose
	// value is the next entry. No Node that is handed out refers to one.
	memberName
)

// String is the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case Null:
		return "null"
	case False:
		return "false"
	case True:
		return "true"
	case Number:
		return "number"
	case String:
		return "string"
	case Array:
		return "array"
	case Object:
		return "object"
	}
	return "invalid"
}

// Node is a value of a [Doc]: the index of its entry on the tape. It is good until
// the next Parse. Every method takes NoNode, and answers as for a value that is not
// there.
type Node int32

// NoNode stands for "no such value".
const NoNode Node = -1

type flags uint8

const (
	// verbatim: the bytes in the text are the canonical form. A container that holds a
	// value or name that is not, is not either.
	verbatim flags = 1 << iota
	// escaped: the string or name has escapes; its decoded text is
	// Doc.text[aux:tail], or not there yet if aux is none.
	escaped
	// unsorted: the object's members do not stand in canonical order.
	unsorted
	// listed: the object's members in canonical order are in Doc.order from aux
	// on, NoNode after the last.
	listed
	// unclosed: the container was still open when reading stopped at a defect.
	unclosed
	omitted
	replaced
	// lone: the string has half of a surrogate pair alone in it.
	lone
)

// entry is one value or member name. Names and values lie on the tape in document
// order, a container before what is in it, a name right before its value.
type entry struct {
	kind  Kind
	flags flags
	// start and end of its bytes in the text, quotes and brackets included.
	start, end int32
	// parent is the container that holds it.
	parent Node
	// tail of a container: the first entry behind all that is in it. Of an escaped
	// string or name: the end of its decoded text.
	tail int32
	// aux of an escaped string or name: the start of its decoded text. Of a listed
	// object: where its list starts. Of an object that is being read: its latest
	// name's entry.
	aux int32
}

const entrySize = 24

// set fills an entry that push made. It sets the fields one by one, since that is
// quicker than copying an entry built elsewhere.
func (e *entry) set(kind Kind, f flags, start, end int, parent Node) {
	e.kind = kind
	e.flags = f
	e.start = int32(start)
	e.end = int32(end)
	e.parent = parent
	e.aux = none
}

const (
	// none is an offset that is not there.
	none = -1
	// noDefect is behind every offset.
	noDefect = int(^uint(0) >> 1)
)

// Doc is one JSON text, read into a flat tape. Its zero value is ready for use.
// Reusing a Doc reuses its memory: once it has grown to the size of the texts that
// it is given, it allocates nothing. Not safe for concurrent use, not even for
// lookups alone: [Doc.Text], [Doc.Sorted] and [Doc.Append] write to scratch memory.
type Doc struct {
	src  []byte
	tape []entry
	// text holds the decoded text of names and, once it was asked for, of strings with
	// escapes, and what was given to Replace.
	text []byte
	// order holds, for each listed object, its members' nodes in canonical order.
	order []Node
	// names and merged are scratch for sorting.
	names, merged []sortable
	// replacements, ascending by node.
	replacements []replacement
	// defect is the offset of the earliest defect, or noDefect.
	defect int
	// lone is where the latest string with escapes has its first half of a surrogate pair
	// alone, or none.
	lone int
	// flaw is the latest offset, while reading, at which the text is not in canonical
	// form, or none.
	flaw int
	// limit is the most entries on the tape, 0 = none.
	limit int
	// cursors is scratch for Append: how far each open container is written.
	cursors [MaxDepth]int32
}

// Limit makes Parse refuse, with TooMany, a text of more than so many values and member
// names; 0, as in a zero Doc, is no limit. It holds until the next Limit, also over a
// Shrink. An entry takes 24 bytes, and a text can have one for every two of its bytes:
// where memory is short, this bounds what a text can make the Doc grow to, however
// long it is.
func (d *Doc) Limit(values int) { d.limit = values }

func (d *Doc) reset(src []byte) {
	d.src = src
	d.tape = d.tape[:0]
	d.text = d.text[:0]
	d.order = d.order[:0]
	d.replacements = d.replacements[:0]
	d.defect = noDefect
	d.lone, d.flaw = none, none
}

// Shrink lets go of the text, and also of the scratch memory if that exceeds limit
// bytes, so that one huge text does not bind memory for ever. The Doc is empty
// afterwards.
func (d *Doc) Shrink(limit int) {
	if d.held() > limit {
		*d = Doc{limit: d.limit}
	}
	d.reset(nil)
}

// held is the scratch memory in bytes.
func (d *Doc) held() int {
	return cap(d.tape)*entrySize + cap(d.text) + cap(d.order)*4 +
		(cap(d.names)+cap(d.merged))*sortableSize + cap(d.replacements)*replacementSize
}

// push makes room for one more entry, with whatever an earlier text left in it, and
// returns it with its place. The tape never grows beyond what a text of this length
// can need: an entry for every two bytes (the tightest text is [0,0,…]), the root,
// and containers that are opened and never closed.
func (d *Doc) push() (*entry, Node) {
	n := len(d.tape)
	if n == cap(d.tape) {
		most := len(d.src)/2 + MaxDepth + 2
		if d.limit > 0 {
			most = min(most, d.limit+2)
		}
		grown := make([]entry, n, min(2*n+32, most))
		copy(grown, d.tape)
		d.tape = grown
	}
	d.tape = d.tape[:n+1]
	return &d.tape[n], Node(n)
}
