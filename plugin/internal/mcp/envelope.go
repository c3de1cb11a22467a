package mcp

import (
	"bytes"
	"unicode/utf8"

	"github.com/callonce/callonce/canonical"
)

// envelope is where those members of a message stand that say what it is, and for
// whom. They are read strictly. All else is bytes, of which only brackets, quotes, commas
// and colons must fit: a lone surrogate, a NaN, a name that comes twice deep in a result
// are the server's and its client's affair, and a replay repeats them as they came.
type envelope struct {
	spans        [fields]span
	caseVariants [fields]bool // a name that equals the field's but for case

	src     []byte
	objects [canonical.MaxDepth/64 + 1]uint64 // a bit for each open container: it is an object
	depth   int
	scratch []byte
}

// span is where a value stands: start 0 = nowhere, end 0 = not read to its end.
type span struct{ start, end int }

type field uint8

const (
	fieldID field = iota
	fieldMethod
	fieldResult
	fieldError
	fieldIsError // from here on of the result
	fieldResultType
	fieldMeta
	fieldCode // from here on of the error
	fieldMessage
	fields
)

var fieldNames = [fields]string{"id", "method", "result", "error", "isError", "resultType", "_meta", "code", "message"}

// levels are the fields that count directly in the message, in its result and in its
// error.
var levels = [...][2]field{{fieldID, fieldIsError}, {fieldIsError, fieldCode}, {fieldCode, fields}}

const (
	inMessage = iota
	inResult
	inError
)

// reading is what became of a text.
type reading uint8

const (
	broken  reading = iota // no JSON as far as it matters, or it can be read two ways
	message                // an object, or a batch of this one object
	other                  // no message, or an empty batch
)

// read finds the fields. What it found before a defect stays, for one that looks at the
// beginning of a message.
func (e *envelope) read(src []byte) reading {
	e.spans, e.caseVariants, e.depth, e.src = [fields]span{}, [fields]bool{}, 0, src
	defer func() { e.src = nil }()
	i := e.space(leadingMark(src))
	if i == len(src) {
		return broken
	}
	kind := message
	switch src[i] {
	case '{':
		i = e.object(i, inMessage)
	case '[':
		i, kind = e.batch(i)
	default:
		i, kind = e.value(i), other
	}
	if i < 0 || e.space(i) != len(src) {
		return broken
	}
	for f := range e.caseVariants {
		if e.caseVariants[f] && e.spans[f].start > 0 {
			return broken
		}
	}
	return kind
}

// leadingMark is the length of a byte order mark at the front.
func leadingMark(src []byte) int {
	if bytes.HasPrefix(src, []byte(byteOrderMark)) {
		return len(byteOrderMark)
	}
	return 0
}

// batch reads a batch of at most one message. Of more, one could end the call and the
// others must not come twice.
func (e *envelope) batch(i int) (end int, kind reading) {
	e.push(false)
	i = e.space(i + 1)
	if i == len(e.src) {
		return -1, broken
	}
	kind = message
	switch e.src[i] {
	case ']':
		return i + 1, other
	case '{':
		i = e.object(i, inMessage)
	default:
		i, kind = e.value(i), other
	}
	if i < 0 {
		return -1, broken
	}
	if i = e.space(i); i == len(e.src) || e.src[i] != ']' {
		return -1, broken
	}
	return i + 1, kind
}

// object reads an object whose members may be fields. It calls itself once at most, for
// the result or the error of a message.
func (e *envelope) object(i, level int) (end int) {
	if !e.push(true) {
		return -1
	}
	i = e.space(i + 1)
	if i < len(e.src) && e.src[i] == '}' {
		e.depth--
		return i + 1
	}
	for {
		from := i
		if i = e.name(i); i < 0 {
			return -1
		}
		f, ok := e.match(from, level)
		if !ok {
			return -1
		}
		if f < fields {
			e.spans[f].start = i
		}
		switch {
		case f == fieldResult && i < len(e.src) && e.src[i] == '{':
			i = e.object(i, inResult)
		case f == fieldError && i < len(e.src) && e.src[i] == '{':
			i = e.object(i, inError)
		default:
			i = e.value(i)
		}
		if i < 0 {
			return -1
		}
		if f < fields {
			e.spans[f].end = i
		}
		if i = e.space(i); i == len(e.src) {
			return -1
		}
		switch e.src[i] {
		case ',':
			i = e.space(i + 1)
		case '}':
			e.depth--
			return i + 1
		default:
			return -1
		}
	}
}

// longestName is the most bytes that a field's name takes, all of it in escapes.
const longestName = len(`"resultType"`) * 6

// match says which field the name at i is, fields for none. ok is false for one that is
// there twice, or for a name directly in the message that is no text.
func (e *envelope) match(i, level int) (f field, ok bool) {
	token := e.src[i:e.quoted(i)]
	if len(token) > longestName {
		return fields, true
	}
	name := token[1 : len(token)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		form, ok := appendText(e.scratch[:0], token)
		if e.scratch = form[:0]; !ok {
			return fields, level != inMessage
		}
		name = form[1 : len(form)-1]
	} else if level == inMessage && !utf8.Valid(name) {
		return fields, false
	}
	for f = levels[level][0]; f < levels[level][1]; f++ {
		switch {
		case string(name) == fieldNames[f]:
			return f, e.spans[f].start == 0
		case len(name) >= len(fieldNames[f]) && bytes.EqualFold(name, []byte(fieldNames[f])):
			e.caseVariants[f] = true
		}
	}
	return fields, true
}

// value skips the value at i and gives its end, -1 where there is none.
func (e *envelope) value(i int) int {
	src, base := e.src, e.depth
	for {
		if i == len(src) {
			return -1
		}
		switch c := src[i]; c {
		case '"':
			i = e.quoted(i)
		case '{', '[':
			if !e.push(c == '{') {
				return -1
			}
			i = e.space(i + 1)
			if i < len(src) && src[i] == c+2 {
				break
			}
			if c == '{' {
				if i = e.name(i); i < 0 {
					return -1
				}
			}
			continue
		default:
			from := i
			for i < len(src) && isBare(src[i]) {
				i++
			}
			if i == from {
				return -1
			}
		}
		if i < 0 {
			return -1
		}
		// A value has ended, or an empty container is about to.
		for {
			if e.depth == base {
				return i
			}
			if i = e.space(i); i == len(src) {
				return -1
			}
			object := e.inObject()
			if src[i] == ',' {
				i = e.space(i + 1)
				if object {
					if i = e.name(i); i < 0 {
						return -1
					}
				}
				break
			}
			if src[i] != ']' && src[i] != '}' || object != (src[i] == '}') {
				return -1
			}
			e.depth--
			i++
		}
	}
}

// isBare reports a byte of a number or a word. NaN, Infinity and whatever else servers
// write for what JSON cannot say are words too; a comment or a text in single quotes,
// which could hide a bracket, is none.
func isBare(c byte) bool {
	return c-'0' <= 9 || c|0x20-'a' <= 'z'-'a' || c == '-' || c == '+' || c == '.' || c == '_'
}

// name skips a member's name and the colon, with white space, and gives where the value
// begins.
func (e *envelope) name(i int) int {
	if i == len(e.src) || e.src[i] != '"' {
		return -1
	}
	if i = e.quoted(i); i < 0 {
		return -1
	}
	if i = e.space(i); i == len(e.src) || e.src[i] != ':' {
		return -1
	}
	return e.space(i + 1)
}

// quoted gives the end of the string at i, -1 where it has none. A carriage return in
// it would be lost in an event.
func (e *envelope) quoted(i int) int {
	for i++; i < len(e.src); i++ {
		switch e.src[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		case '\r':
			return -1
		}
	}
	return -1
}

func (e *envelope) space(i int) int {
	for i < len(e.src) && isSpace(e.src[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func (e *envelope) push(object bool) bool {
	if e.depth == canonical.MaxDepth {
		return false
	}
	word, bit := &e.objects[e.depth/64], uint64(1)<<(e.depth%64)
	*word &^= bit
	if object {
		*word |= bit
	}
	e.depth++
	return true
}

func (e *envelope) inObject() bool {
	d := e.depth - 1
	return e.objects[d/64]>>(d%64)&1 != 0
}

// begun reports whether a field's value is there, read to its end or not.
func (e *envelope) begun(f field) bool { return e.spans[f].start > 0 }

// raw is a field's value as it stands in src, nil where it is not there as a whole.
func (e *envelope) raw(src []byte, f field) []byte {
	s := e.spans[f]
	if s.end == 0 {
		return nil
	}
	return src[s.start:s.end]
}

// appendText appends the canonical form of a value. ok is false for one that is no JSON,
// or that holds half of a surrogate pair alone: what decides must be text to everybody.
func appendText(dst, value []byte) (form []byte, ok bool) {
	form, err := canonical.Append(dst, value)
	if err != nil {
		return form, false
	}
	// The only other escapes \u of the canonical form are those of control characters, \u00….
	for i := len(dst); i+2 < len(form); i++ {
		if form[i] != '\\' {
			continue
		}
		if i++; form[i] == 'u' && form[i+1] == 'd' {
			return form, false
		}
	}
	return form, true
}
