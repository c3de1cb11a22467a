package mcp

import "bytes"

// Events reads a server-sent event stream (WHATWG HTML, section 9.2.6) chunk by
// chunk and hands out the data of each event that has any. An event whose data is
// longer than Cap bytes is dropped and told by Oversize. It holds at most Cap bytes of
// an event and as many, with the field's name, of a line. The zero value with a Cap
// is ready.
type Events struct {
	Cap      int
	Oversize bool // an event was longer than Cap

	data    []byte
	line    []byte
	lost    bool // this event does not fit
	cutLine bool // this line does not fit
	some    bool // this event has a data line
	afterCR bool
	begun   bool
}

// Feed reads a chunk and calls event with the data of every event that ends in it,
// until event returns true. data is valid during the call only.
func (e *Events) Feed(chunk []byte, event func(data []byte) bool) {
	for len(chunk) > 0 {
		if e.afterCR {
			e.afterCR = false
			if chunk[0] == '\n' {
				chunk = chunk[1:]
				continue
			}
		}
		i := bytes.IndexAny(chunk, "\r\n")
		if i < 0 {
			e.keep(chunk)
			return
		}
		e.afterCR = chunk[i] == '\r'
		line := chunk[:i]
		if len(e.line) > 0 {
			e.keep(line)
			line = e.line
		}
		chunk = chunk[i+1:]
		if !e.endLine(line) {
			continue
		}
		stop := event(e.data)
		e.data = e.data[:0]
		if stop {
			return
		}
	}
}

// longestHead is the most that can stand before a line's data: on the first line, a
// byte order mark too.
const longestHead = len(byteOrderMark + "data: ")

const byteOrderMark = "\xEF\xBB\xBF"

// keep holds a part of a line until its end comes. Of a line that is too long it
// keeps the beginning, which tells the field's name.
func (e *Events) keep(part []byte) {
	if room := e.Cap + longestHead - len(e.line); len(part) > room {
		e.cutLine = true
		part = part[:max(room, 0)]
	}
	e.line = append(e.line, part...)
}

// endLine takes one whole line and reports whether it ended an event with data.
func (e *Events) endLine(line []byte) bool {
	cut := e.cutLine
	e.line, e.cutLine = e.line[:0], false
	if !e.begun {
		e.begun = true
		line = bytes.TrimPrefix(line, []byte(byteOrderMark))
	}
	if len(line) == 0 {
		return e.endEvent()
	}
	value, ok := bytes.CutPrefix(line, []byte("data"))
	if !ok || len(value) > 0 && value[0] != ':' {
		return false
	}
	if len(value) > 0 {
		value = bytes.TrimPrefix(value[1:], []byte(" "))
	}
	if e.some {
		e.data = append(e.data, '\n')
	}
	e.some = true
	if cut || e.lost || len(e.data)+len(value) > e.Cap {
		e.lost = true
		e.data = e.data[:0]
		return false
	}
	e.data = append(e.data, value...)
	return false
}

func (e *Events) endEvent() bool {
	lost := e.lost
	e.lost, e.some = false, false
	if lost {
		e.Oversize = true
		e.data = e.data[:0]
	}
	return len(e.data) > 0
}

// Value finds where a JSON text ends without reading it strictly, so that a body
// sent in chunks can be judged with its last byte and not with the stream's end.
// The zero value is ready.
type Value struct {
	depth   int
	quoted  bool
	escaped bool
	Done    bool // the outermost object or array has ended
	Trailed bool // something other than white space followed it
}

// Feed reads a chunk.
func (v *Value) Feed(chunk []byte) {
	for _, c := range chunk {
		switch {
		case v.Done:
			if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
				v.Trailed = true
			}
		case v.escaped:
			v.escaped = false
		case v.quoted:
			v.escaped = c == '\\'
			v.quoted = c != '"'
		case c == '"':
			v.quoted = true
		case c == '{' || c == '[':
			v.depth++
		case c == '}' || c == ']':
			v.depth--
			v.Done = v.depth <= 0
		}
	}
}
