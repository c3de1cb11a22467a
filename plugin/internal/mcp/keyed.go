package mcp

import (
	"bytes"
	"strings"
)

// keyed reports whether a key stands in a body that can be read in more than one way.
// That must not depend on what stands before it: a duplicate member, a byte order mark
// or too much depth does not end the syntax, and some server reads on. So the body is
// walked to its end, and a key counts under any of the duplicates, and under members that
// equal those of its pointer but for case. Where the syntax itself is broken, nobody knows
// how a server goes on, and the mere spelling of a key source's last name counts.
func keyed(body []byte, pointers []string) bool {
	body = bytes.TrimPrefix(body, []byte(byteOrderMark))
	for _, pointer := range pointers {
		w := walk{body: body, pointer: pointer, names: 1 + strings.Count(pointer, "/")}
		if found, sound := w.run(); found || !sound && spelt(body, lastToken(pointer)) {
			return true
		}
	}
	return false
}

// deepest is how many containers inside one another are walked. Beyond, a text counts as
// broken.
const deepest = 4096

// walk goes through the structure of a JSON text, with no memory but a bit for each open
// container, and looks for one key source: "params", then the tokens of a pointer.
// What stands in the string of a value is not judged.
type walk struct {
	body    []byte
	pointer string
	names   int // how many names lead to it

	objects [deepest / 64]uint64 // of the open containers, those that are objects
	depth   int                  // how many are open
	outside int                  // of these, those around a message: one in a batch, more in those within one
	matched int                  // how many of the names lead to where the walk stands
	here    bool                 // the value that comes is at the pointer
}

// want is what comes next in the text.
type want uint8

const (
	aValue want = iota
	aName
	anEnd // of a value, or what follows it
)

// run reports whether a value that counts as a key is at the pointer, and whether the
// text is sound: found is certain only with it, or true.
func (w *walk) run() (found, sound bool) {
	body, i, next := w.body, 0, aValue
	for {
		if i = skipSpace(body, i); i == len(body) {
			return false, next == anEnd && w.depth == 0
		}
		c := body[i]
		switch {
		case next == aName:
			end := stringEnd(body, i)
			if end < 0 || !isClean(body[i+1:end-1]) {
				return false, false
			}
			w.enter(body[i+1 : end-1])
			if i = skipSpace(body, end); i == len(body) || body[i] != ':' {
				return false, false
			}
			i, next = i+1, aValue
		case next == anEnd && w.depth == 0:
			return false, false
		case next == anEnd && c == ',':
			if i, next = i+1, aName; !w.inObject() {
				w.enter(nil)
				next = aValue
			}
		case next == anEnd:
			if w.inObject() && c != '}' || !w.inObject() && c != ']' {
				return false, false
			}
			i, w.depth = i+1, w.depth-1
			w.outside = min(w.outside, w.depth)
		case w.here && !isAbsent(body[i:], w.pointer):
			return true, true
		case c == '{' || c == '[':
			if w.depth == deepest {
				return false, false
			}
			w.open(c == '{')
			i = skipSpace(body, i+1)
			switch {
			case i < len(body) && body[i] == c+2: // empty
				next = anEnd
			case c == '{':
				next = aName
			default:
				w.enter(nil)
			}
		default:
			if i = scalarEnd(body, i); i < 0 {
				return false, false
			}
			next = anEnd
		}
	}
}

func (w *walk) open(object bool) {
	if w.depth == w.outside && !object {
		w.outside++
	}
	bit := uint64(1) << (w.depth % 64)
	if w.objects[w.depth/64] &^= bit; object {
		w.objects[w.depth/64] |= bit
	}
	w.depth++
}

func (w *walk) inObject() bool {
	return w.objects[(w.depth-1)/64]>>((w.depth-1)%64)&1 != 0
}

// enter notes where the value that comes stands: under a name, as its string is spelled
// without the quotes, or in an array. Which element a pointer means is not counted: any
// element may be it.
func (w *walk) enter(name []byte) {
	at := w.depth - 1 - w.outside
	w.matched, w.here = min(w.matched, max(at, 0)), false
	if at < 0 || w.matched != at || at >= w.names {
		return
	}
	token := "params"
	if at > 0 {
		token = tokenAt(w.pointer, at)
	}
	if w.inObject() && matches(name, token) == len(name) || !w.inObject() && strings.Trim(token, "0123456789") == "" {
		w.matched++
		w.here = w.matched == w.names
	}
}

// tokenAt is a pointer's n-th reference token, from 1.
func tokenAt(pointer string, n int) string {
	for ; n > 0; n-- {
		pointer = pointer[strings.IndexByte(pointer, '/')+1:]
	}
	token, _, _ := strings.Cut(pointer, "/")
	return token
}

func lastToken(pointer string) string { return pointer[strings.LastIndexByte(pointer, '/')+1:] }

// isAbsent reports whether a value is none: null or, among the arguments, an empty string.
func isAbsent(value []byte, pointer string) bool {
	return bytes.HasPrefix(value, []byte("null")) || inArguments(pointer) && bytes.HasPrefix(value, []byte(`""`))
}

// inArguments reports whether a key source lies in a call's arguments.
func inArguments(pointer string) bool { return strings.HasPrefix(pointer, "/arguments/") }

func skipSpace(s []byte, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\r' || s[i] == '\t') {
		i++
	}
	return i
}

// stringEnd is the offset behind the string that begins at i, -1 if none does.
func stringEnd(s []byte, i int) int {
	if s[i] != '"' {
		return -1
	}
	for i++; i < len(s); i++ {
		switch s[i] {
		case '"':
			return i + 1
		case '\\':
			if i++; i == len(s) || strings.IndexByte(`"\/bfnrtu`, s[i]) < 0 || s[i] == 'u' && unit(s[i-1:]) < 0 {
				return -1
			}
		}
	}
	return -1
}

// scalarEnd is the offset behind the string, number or word that begins at i, -1 if none
// does.
func scalarEnd(s []byte, i int) int {
	if s[i] == '"' {
		return stringEnd(s, i)
	}
	end := i
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end]|0x20 >= 'a' && s[end]|0x20 <= 'z' || strings.IndexByte("+-.", s[end]) >= 0) {
		end++
	}
	switch token := s[i:end]; string(token) {
	case "null", "true", "false":
	default:
		if !isNumber(token) {
			return -1
		}
	}
	return end
}

// isNumber reports whether a token is a number of RFC 8259 section 6.
func isNumber(token []byte) bool {
	token = bytes.TrimPrefix(token, []byte("-"))
	digits := func() (n int) {
		for n < len(token) && token[n]-'0' <= 9 {
			n++
		}
		token = token[n:]
		return n
	}
	zero := len(token) > 0 && token[0] == '0'
	if n := digits(); n == 0 || zero && n > 1 {
		return false
	}
	if len(token) > 0 && token[0] == '.' {
		if token = token[1:]; digits() == 0 {
			return false
		}
	}
	if len(token) > 0 && token[0]|0x20 == 'e' {
		if token = token[1:]; len(token) > 0 && (token[0] == '+' || token[0] == '-') {
			token = token[1:]
		}
		if digits() == 0 {
			return false
		}
	}
	return len(token) == 0
}
