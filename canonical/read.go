package canonical

import "slices"

// Parse reads src as one JSON value with white space around it. It returns nil, or
// an [*Error] that tells the earliest defect. The Doc keeps src itself, not a copy:
// src must not change while the Doc is in use. After an error, what was read can
// still be looked at; [Doc.Complete] says how far it can be trusted.
func (d *Doc) Parse(src []byte) error {
	// Clipped, since names are read eight bytes at a time.
	d.reset(slices.Clip(src))
	if len(src) > MaxLength {
		d.src, d.defect = nil, MaxLength
		return &Error{Offset: MaxLength, Reason: TooLong, Found: int(src[MaxLength])}
	}
	if offset, reason, open := d.read(); reason != NoReason {
		return d.stop(offset, reason, open)
	}
	return nil
}

// read fills the tape. At a defect it returns its offset and reason, and the
// innermost container that is still open there. Calls are dear where this is compiled
// to wasm, so that what most tokens need stands here, not in functions.
func (d *Doc) read() (offset int, reason Reason, open Node) {
	src := d.src
	if len(src) >= 3 && src[0] == 0xef && src[1] == 0xbb && src[2] == 0xbf {
		return 0, ByteOrderMark, NoNode
	}
	limit := noDefect
	if d.limit > 0 {
		limit = d.limit
	}
	open = NoNode
	object := false // what open is
	depth := 0
	i := skipSpace(src, 0)
	want := WantValue
	for {
		if i == len(src) {
			return i, want, open
		}
		if len(d.tape) >= limit {
			return i, TooMany, open
		}
		switch c := src[i]; c {
		case '"':
			end, f := skipPlain(src, i+1), verbatim
			if end < len(src) && src[end] == '"' {
				end++
			} else if end, f, reason = d.readText(end); reason != NoReason {
				return end, reason, open
			}
			e, _ := d.push()
			e.set(String, f, i, end, open)
			if f&verbatim == 0 {
				d.flaw = i
			}
			i = end
		case '{', '[':
			if depth == MaxDepth {
				return i, TooDeep, open
			}
			depth++
			object = c == '{'
			open = d.open(object, i, open)
			i++
			if i < len(src) && src[i] <= ' ' {
				i = d.skipFlaw(i)
			}
			if i < len(src) && src[i] == closing(c) {
				break
			}
			want = WantElement
			if object {
				want = WantValue
				if i, reason = d.readName(i, open, WantMember); reason != NoReason {
					return i, reason, open
				}
			}
			continue
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			end, plain, reason := scanNumber(src, i)
			if reason != NoReason {
				return end, reason, open
			}
			e, _ := d.push()
			e.set(Number, verbatim, i, end, open)
			if !plain {
				e.flags = 0
				d.flaw = i
			}
			i = end
		case 't', 'f', 'n':
			if i, reason = d.readLiteral(i, open); reason != NoReason {
				return i, reason, open
			}
		default:
			return i, want, open
		}
		want = WantValue

		// A value has ended at i, or an empty container is about to. Close what
		// ends here, up to the start of the next value.
		for {
			if i < len(src) && src[i] <= ' ' {
				i = d.skipFlaw(i)
			}
			if open == NoNode {
				if i < len(src) {
					return i, WantEnd, open
				}
				return i, NoReason, open
			}
			bracket, wantEnd := byte(']'), WantElementEnd
			if object {
				bracket, wantEnd = '}', WantMemberEnd
			}
			if i == len(src) {
				return i, wantEnd, open
			}
			if src[i] == ',' {
				i++
				if i < len(src) && src[i] <= ' ' {
					i = d.skipFlaw(i)
				}
				if object {
					if i, reason = d.readName(i, open, WantName); reason != NoReason {
						return i, reason, open
					}
				}
				break
			}
			if src[i] != bracket {
				return i, wantEnd, open
			}
			i++
			if !d.close(open, i) {
				return i, DuplicateName, open
			}
			open = d.tape[open].parent
			object = open != NoNode && d.tape[open].kind == Object
			depth--
		}
	}
}

func closing(c byte) byte { return c + 2 }

const spaces = 1<<' ' | 1<<'\t' | 1<<'\n' | 1<<'\r'

func skipSpace(src []byte, i int) int {
	for i < len(src) && src[i] <= ' ' && uint64(1)<<src[i]&spaces != 0 {
		i++
	}
	return i
}

// skipFlaw skips white space between tokens, which the canonical form has not.
func (d *Doc) skipFlaw(i int) int {
	d.flaw = i
	return skipSpace(d.src, i)
}

// open begins a container whose opening bracket is at i.
func (d *Doc) open(object bool, i int, parent Node) Node {
	kind := Array
	if object {
		kind = Object
	}
	e, n := d.push()
	e.set(kind, unclosed, i, i, parent)
	return n
}

// close ends container n before end. It reports whether the names in it are all
// different.
func (d *Doc) close(n Node, end int) bool {
	e := &d.tape[n]
	e.end = int32(end)
	e.tail = int32(len(d.tape))
	if e.flags&unsorted != 0 {
		d.sortNames(n)
		if first, _ := d.duplicate(); first != NoNode {
			return false
		}
		d.list(n)
		d.flaw = max(d.flaw, int(e.start))
	}
	e.flags &^= unclosed
	if d.flaw < int(e.start) {
		e.flags |= verbatim
	}
	return true
}

// stop closes the books at a defect: it looks for an earlier one in the objects that
// are still open, and makes the tape safe to walk.
func (d *Doc) stop(offset int, reason Reason, open Node) error {
	end, first := offset, 0
	for n := open; n != NoNode; n = d.tape[n].parent {
		e := &d.tape[n]
		e.end = int32(end)
		e.tail = int32(len(d.tape))
		if e.flags&unsorted == 0 {
			continue
		}
		d.sortNames(n)
		if f, s := d.duplicate(); f != NoNode && int(d.tape[s].start) < offset {
			reason, offset, first = DuplicateName, int(d.tape[s].start), int(d.tape[f].start)
		}
	}
	d.dropName(open)
	d.defect = offset
	found := EndOfText
	if offset < len(d.src) {
		found = int(d.src[offset])
	}
	return &Error{Offset: offset, Reason: reason, Found: found, First: first}
}

// dropName takes a last name without a value off the tape.
func (d *Doc) dropName(open Node) {
	last := len(d.tape) - 1
	if last < 0 || d.tape[last].kind != memberName {
		return
	}
	d.tape = d.tape[:last]
	for n := open; n != NoNode; n = d.tape[n].parent {
		d.tape[n].tail = int32(last)
	}
}
